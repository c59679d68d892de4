"""Downloads and converts the real model, and prints its directory."""

from tests.real_models import smollm2

if __name__ == "__main__":
    print(smollm2())
