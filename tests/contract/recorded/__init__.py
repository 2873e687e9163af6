"""What schedulers printed. Unless a name says otherwise it was recorded from the program itself, never made up."""
