"""Floor 3: DeviceMesh, named dimensions over ranks."""

from shardwise.mesh.argument import DeviceType
from shardwise.mesh.creation import init_device_mesh
from shardwise.mesh.device_mesh import DeviceMesh, get_current_mesh
from shardwise.mesh.host import PlacementWarning

__all__ = ["DeviceMesh", "DeviceType", "PlacementWarning", "get_current_mesh", "init_device_mesh"]
