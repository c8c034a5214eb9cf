"""Floor 3: DeviceMesh, named dimensions over ranks."""

from shardwise.mesh.device_mesh import DeviceMesh, DeviceType, init_device_mesh

__all__ = ["DeviceMesh", "DeviceType", "init_device_mesh"]
