"""All peers by name, ours first."""

from __future__ import annotations

from importlib.util import find_spec

from peers import moa_peers, own_peers, river_peers, sklearn_peers, static_peers, vw_peers

PEERS = {
    **own_peers.PEERS,
    **sklearn_peers.PEERS,
    **vw_peers.PEERS,
    **static_peers.PEERS,
    **river_peers.PEERS,
    **moa_peers.PEERS,
}
OURS = tuple(own_peers.PEERS)


def is_there(name: str) -> bool:
    """Whether the peer's package is installed here."""
    return find_spec(PEERS[name].module.split(".")[0]) is not None
