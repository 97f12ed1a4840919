"""Says that it is there, and then waits to be stopped. Its argument is for those who look for its process."""

import time

print("wäiting", flush=True)
time.sleep(25)
