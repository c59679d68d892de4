"""llama.cpp: completion and infill."""
