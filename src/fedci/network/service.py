"""A systemd unit for a party: its command starts with the machine, goes on after a crash, and stays within its folders.

It is started again where the network or another party failed (exit code 4), and not where a person has to act: an input
to mend (2), a policy that refuses (3), numbers that run away (5).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fedci.errors import UsageError
from fedci.network.kit import Kit

RESTART_SECONDS = 60
STOP_SECONDS = 30
NOT_AGAIN = (1, 2, 3, 5)
TEMPLATE = """\
[Unit]
Description=fedci, {role} {name} of the study {study}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={folder}
Environment={cache}
{environment}# goes on where it stood: after a crash, a reboot, or when the other side was away
Restart=on-failure
RestartSec={again}
RestartPreventExitStatus={never}
SuccessExitStatus=130 143
KillMode=mixed
TimeoutStopSec={stop}
# its own folders (compiled programs too) and nothing else; outward connections only{listens}
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
ReadWritePaths={writes}

[Install]
WantedBy={target}
"""


def name_of(kit: Kit) -> str:
    """What the unit's file is called."""
    return f"fedci-{kit.name}.service" if kit.role == "site" else "fedci-coordinator.service"


def unit(kit: Kit, arguments: Sequence[str], writes: Sequence[Path], environment: Path | None = None,
         user: bool = False, program: str = sys.executable) -> str:
    """The text of a unit that runs `fedci` with these arguments.

    writes        folders it may write to: its kit, the site's store, where the result goes
    environment   a file with FEDCI_DATABASE_URL and the like, readable by its owner alone
    user          for `systemctl --user`
    """
    if kit.by_files:
        raise UsageError(f"the kit '{kit.folder.name}' is made for files, which people carry: there is nothing to keep "
                         f"running")
    places = [path.absolute() for path in (kit.folder, *writes)]
    for path in places:
        if any(sign in str(path) for sign in "\n\r%\"'\\"):
            raise UsageError(f"'{path}': systemd takes no path with quotes, % or line ends. Move the folder")
    words = [program, "-m", "fedci", *arguments]
    return TEMPLATE.format(
        role=kit.role, name=kit.name, study=kit.study_hash[:12], command=" ".join(_quoted(word) for word in words),
        folder=kit.folder.absolute(), cache=_quoted(f"XDG_CACHE_HOME={kit.run.absolute() / 'cache'}"),
        environment=f"EnvironmentFile={environment.absolute()}\n" if environment else "",
        again=RESTART_SECONDS, never=" ".join(map(str, NOT_AGAIN)), stop=STOP_SECONDS,
        listens=f", and port {kit.port}" if kit.role == "coordinator" else "",
        writes=" ".join(_quoted(str(path)) for path in places), target="default.target" if user else
        "multi-user.target")


def _quoted(word: str) -> str:
    """As systemd reads a word: its quotes are a shell's, % and $ are doubled."""
    return shlex.quote(word.replace("%", "%%").replace("$", "$$"))
