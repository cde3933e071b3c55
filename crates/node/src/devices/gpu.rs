//! GPUs of NVIDIA: how many there are, and how a program is told which are its own.

use std::fs;
use std::path::Path;

pub const RESOURCE: &str = "nvidia.com/gpu";
/// One directory for each GPU, where the driver is loaded.
const DRIVER: &str = "/proc/driver/nvidia/gpus";

/// How many this machine has. The driver itself is asked: neither its library nor a program is
/// needed, and nothing can hang.
pub fn count() -> u32 {
    let listed = fs::read_dir(DRIVER).into_iter().flatten().flatten().count();
    let listed = u32::try_from(listed).unwrap_or(0);
    // A container may have the devices without the driver's directory.
    let devices = (0_u32..).take_while(|it| Path::new(&format!("/dev/nvidia{it}")).exists());
    listed.max(u32::try_from(devices.count()).unwrap_or(0))
}

/// What CUDA and the tools of NVIDIA read. Numbers follow the order of the bus, as the driver's.
pub fn variables(numbers: &[u32]) -> Vec<(&'static str, String)> {
    let list = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let tools = if numbers.is_empty() { "void".to_owned() } else { list.clone() };
    vec![
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", list),
        ("NVIDIA_VISIBLE_DEVICES", tools),
    ]
}
