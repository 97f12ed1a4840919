"""Says that it is there, and then waits to be stopped."""

import time

print("sleeping", flush=True)
time.sleep(25)
