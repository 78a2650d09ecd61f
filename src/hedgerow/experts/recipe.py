"""A method of the paper's kind as a composition: spaces, experts in them, a mixer, a refresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedgerow.learners.method import Built, Method, Offline, Options

if TYPE_CHECKING:
    from hedgerow.align import Aligner
    from hedgerow.heads import Head
    from hedgerow.mix import Mixer

ORIGINAL = "ln N"  # HomOTL-II and HomOTLMS define beta with their own number of experts; no reading changes that
SINGLE = "single"


@dataclass(frozen=True)
class Recipe(Method):
    """A method: which spaces, which experts in them, how they are mixed, whether the spaces are refreshed.

    spaces "shared": one for all sources pooled; "per-source": one for each. `frozen` says which source classifiers
    stay as experts ("each", "pooled" or ""), `online` where the online heads start ("zero" or "pooled"). In per-source
    spaces every space has its own frozen and its own online head. `log_experts` fixes the N in beta's ln N; None: by
    the reading. Aligner, head and mixer are names or objects.

    >>> Recipe("Mine", "per-source", aligner="coral", frozen="each", head="arow").mixer
    'hedge'
    """

    spaces: str = "shared"
    aligner: str | Aligner = "identity"
    frozen: str = ""
    online: str = "zero"
    mixer: str | Mixer = "hedge"
    refresh: bool = False
    head: str | Head = "pa1"
    log_experts: str | None = None

    def build(self, offline: Offline) -> Built:
        """Align every space, train the source classifiers, lay out the experts."""
        from hedgerow.experts.build import build

        return build(self, offline)

    def takes_own_columns(self, given: Options) -> bool:
        """Where experts see the input itself; an aligned space would have to be made of all columns."""
        aligner = self.aligner if given.aligner is None else given.aligner
        return aligner == "identity" and not self.refresh

    def options(self, given: Options) -> frozenset[str]:
        """What its parts read: see the table in `hedgerow.learners.readings`."""
        return frozenset(
            {"aligner", "head", "preprocess", "target_mean", "dtype"} | self._of_aligner(given) | self._of_head(given)
            | self._of_mixer(given) | ({"mu", "refresh_every", "unseen", "inverse"} if self.refresh else set())
        )  # fmt: skip

    def _of_aligner(self, given: Options) -> set[str]:
        from hedgerow.align import ALIGNERS

        aligner = self.aligner if given.aligner is None else given.aligner
        projected = {"projected"} if aligner != "identity" or self.refresh else set()
        read = ALIGNERS.options(aligner) if isinstance(aligner, str) else set()
        return projected | (read & {"dim", "lam", "eigenvectors"})

    def _of_head(self, given: Options) -> set[str]:
        from hedgerow.heads import HEADS

        head = self.head if given.head is None else given.head
        read = HEADS.options(head) if isinstance(head, str) else set()
        tau = {"tau"} if head == "pa1" else set()
        trains = {"source_pass"} if self.frozen or self.online == "pooled" else set()
        return (read & {"C"}) | tau | trains

    def _of_mixer(self, given: Options) -> set[str]:
        from hedgerow.mix import MIXERS

        if self.mixer == SINGLE:
            return set()
        mixer = self.mixer if given.mixer is None else given.mixer
        read = {"mixer"}
        if isinstance(mixer, str):
            options = MIXERS.options(mixer)
            read |= {"combine"} if "combination" in options else set()
            read |= {"guarantee"} if "proof" in options else set()
            if mixer == "hedge":
                read |= {"beta"} if given.horizon is None or given.beta is not None else set()
                read |= {"horizon"} if given.beta is None else set()
                read |= {"beta_rule"} if given.beta is None and self.log_experts is None else set()
        return read

    def row(self) -> dict[str, Any]:
        """Its parts, for a table of methods."""
        return {
            "spaces": f"{named(self.aligner)}, {self.spaces}",
            "frozen": self.frozen or "-",
            "online": self.online,
            "mixer": named(self.mixer),
            "refresh": "yes" if self.refresh else "-",
        }


def named(part: object) -> str:
    """A part's name, or what it prints as."""
    return part if isinstance(part, str) else repr(part)
