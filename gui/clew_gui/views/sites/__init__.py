"""The window's side of sites: what a person is asked, the sites themselves, where a run goes, jobs that wait.

Nothing here is imported before it is used, and nothing here waits for the network in the window's thread.
"""
