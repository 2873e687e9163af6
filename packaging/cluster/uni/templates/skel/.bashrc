# As such files grow over the years: it prints and complains also where nobody is there, and changes what commands do.
# A job script that begins with "#!/bin/bash -l" reads it as well, through ~/.profile, whatever the login shell is.
echo "Welcome to the HPC cluster! Your project ends in 23 days."
stty erase '^H'
conda activate course
set -o noclobber
umask 002
alias rm='rm -i' ls='ls --color=always'
export PYTHONPATH=$HOME/lib/python
