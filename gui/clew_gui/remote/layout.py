"""Where Clew keeps things on a site. All paths are absolute POSIX paths over there; nothing is looked at here."""

from __future__ import annotations

import msgspec


class Layout(msgspec.Struct, frozen=True):
    """``home`` is what the agent there gets as ``CLEW_HOME``: on a file system that login node and nodes share."""

    home: str

    @property
    def software(self) -> str:
        """What was installed: the agent, one folder for each version of it, and packages that the site lacks."""
        return f"{self.home}/software"

    @property
    def launcher(self) -> str:
        """Starts the agent that was installed last, for job scripts of the user's own."""
        return f"{self.home}/bin/clew-agent"

    @property
    def data(self) -> str:
        """The user's data sets there, where the agent looks for them by itself."""
        return f"{self.home}/data"

    @property
    def staged(self) -> str:
        """Files of the laptop, each in a folder named by its SHA-256."""
        return f"{self.home}/staged"

    def job(self, job: str) -> str:
        """The folder of one job: its script, its runs' specs, its records and logs."""
        return f"{self.home}/jobs/{job}"

    def job_runs(self, job: str) -> str:
        """Specs that the job's agent begins by itself, ``<run>.toml``: also when nobody watches."""
        return f"{self.job(job)}/runs"

    def address(self, job: str) -> str:
        """What a viewer needs to reach the job's agent, whose id is the job's (``AgentAddress``)."""
        return f"{self.home}/agents/{job}.json"

    def agent_files(self, job: str) -> tuple[str, ...]:
        """What the job's agent has beside its log while it serves: its address, queue, and who is let in."""
        return self.address(job), f"{self.home}/agents/{job}.queue", f"{self.home}/agents/{job}.allow"

    def run(self, run: str) -> str:
        """A run's folder."""
        return f"{self.home}/runs/{run}"

    def journal(self, run: str, attempt: int) -> str:
        """The journal of one attempt."""
        return f"{self.run(run)}/journal.{attempt:04d}"
