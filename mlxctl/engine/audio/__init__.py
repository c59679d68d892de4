"""Models that write down what is said: in the engine, a window at a time, between the steps of the others."""
