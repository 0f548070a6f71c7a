"""What the engine's settings must hold at each party: written into a kit, and checked before every run.

The engine's defaults (NVIDIA FLARE 2.9) let a lead ship code with a job, allow some seventy of its own classes, stream
a site's logs to the server and keep jobs in a world-readable temporary folder. Here:

    class_allow_list      only classes of the installed package run, at every party
    byoc = none           a job that carries code is refused
    log streaming off     a site's logs stay with it
    storage               in the kit's own folder, mode 0700
    result filters        every result passes `LeavingFilter`
    launcher              a job's process ends with the operator's command
    rights                the coordinator submits and manages jobs; nobody has a shell
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedci.bounded import json_file

ALLOWED = ["fedci."]
"""With the dot: 'fedci_evil' is not ours."""
FILTER = "fedci.network.flare.LeavingFilter"
LAUNCHERS = {"site": "fedci.network.launcher.SiteLauncher", "coordinator": "fedci.network.launcher.CoordinatorLauncher"}
SCOPE = "fedci"
RIGHTS = {"submit_job": "any", "manage_job": "any", "download_job": "any", "view": "any", "clone_job": "none",
          "operate": "none", "shell_commands": "none", "byoc": "none", "server-predeployed-flwr": "none"}
NO_RIGHTS = dict.fromkeys(RIGHTS, "none")


def authorization() -> dict[str, Any]:
    return {"format_version": "1.0",
            "permissions": {"project_admin": RIGHTS, "org_admin": NO_RIGHTS, "lead": NO_RIGHTS, "member": NO_RIGHTS}}


def privacy() -> dict[str, Any]:
    return {"scopes": [{"name": SCOPE, "properties": {}, "task_data_filters": [],
                        "task_result_filters": [{"path": FILTER, "args": {}}]}], "default_scope": SCOPE}


def site_resources() -> dict[str, Any]:
    nothing = {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300}
    return {"format_version": 2, "class_list_enforcement_mode": "enforce", "class_allow_list": ALLOWED,
            "allow_log_streaming": False, "client": {"retry_timeout": 30, "compression": "Gzip"},
            "components": [
                _part("resource_manager", "nvflare.app_common.resource_managers.gpu_resource_manager."
                                          "GPUResourceManager", nothing),
                _part("resource_consumer", "nvflare.app_common.resource_consumers.gpu_resource_consumer."
                                           "GPUResourceConsumer"),
                _part("process_launcher", LAUNCHERS["site"])]}


def server_resources(folder: Path) -> dict[str, Any]:
    """With jobs and snapshots below `folder`."""
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {"format_version": 2, "class_list_enforcement_mode": "enforce", "class_allow_list": ALLOWED,
            "allow_log_streaming": False,
            "servers": [{"admin_storage": "transfer", "max_num_clients": 100, "heart_beat_timeout": 30,
                         "admin_timeout": 10.0}],
            "snapshot_persistor": {
                "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
                "args": {"uri_root": "/", "storage": {"path": storage, "args": {
                    "root_dir": str(folder / "snapshots"), "uri_root": "/"}}}},
            "components": [
                _part("job_scheduler", "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                      {"max_jobs": 1}),
                _part("job_manager", "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                      {"uri_root": str(folder / "jobs"), "job_store_id": "job_store"}),
                _part("job_store", storage),
                _part("process_launcher", LAUNCHERS["coordinator"])]}


def _part(name: str, path: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": name, "path": path, "args": args or {}}


def problems(local: Path, server: bool) -> list[str]:
    """Which promises the settings in a `local` folder do not keep."""
    resources, rights, filters = (_read(local / name) for name in ("resources.json", "authorization.json",
                                                                   "privacy.json"))
    faults = []
    if resources.get("class_allow_list") != ALLOWED or resources.get("class_list_enforcement_mode") != "enforce":
        faults.append(f"resources.json: class_allow_list must be {ALLOWED} and enforced, or a job could run other code")
    if resources.get("allow_log_streaming") is not False:
        faults.append("resources.json: allow_log_streaming must be false, or the site's logs leave it")
    if any("log_streamer" in str(part.get("path")) for part in resources.get("components", [])):
        faults.append("resources.json: no log streamer may be among the components")
    launchers = [part.get("path") for part in resources.get("components", []) if "launcher" in str(part.get("path"))]
    if launchers != [LAUNCHERS["coordinator" if server else "site"]]:
        faults.append("resources.json: jobs must be started by fedci's launcher, or they could outlive the command")
    if any(role != RIGHTS and role != NO_RIGHTS for role in rights.get("permissions", {"": ""}).values()):
        faults.append("authorization.json: rights differ from the kit's; 'byoc' and 'shell_commands' must be 'none'")
    if not server and filters != privacy():
        faults.append(f"privacy.json: every result must pass {FILTER}")
    if server and resources != server_resources(local.parent):
        faults.append("resources.json: jobs and snapshots must be kept in the kit's own folder")
    return faults


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = json_file(path)
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
