"""What pages of the console show, without a browser and without a broker."""
