"""Files in stores of objects: real servers, processes of this machine."""
