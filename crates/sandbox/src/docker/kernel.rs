//! The kernel under a container, derived from the name of its OCI runtime. Operators choose these
//! names, so the usual ones are recognized with additions: `runsc-kvm`, `io.containerd.kata.v2`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// The kernel of the engine's machine: `runc`, `crun` and all unknown names.
    Shared,
    /// A kernel in user space.
    Gvisor,
    /// A kernel in a virtual machine.
    Kata,
}

impl Kernel {
    pub(super) fn from_runtime(runtime: &str) -> Kernel {
        match runtime {
            name if name.contains("runsc") || name.contains("gvisor") => Kernel::Gvisor,
            name if name.contains("kata") => Kernel::Kata,
            _ => Kernel::Shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_runtime_names_are_recognized_with_additions() {
        for name in ["runsc", "runsc-kvm", "io.containerd.runsc.v1", "my-runsc", "gvisor"] {
            assert_eq!(Kernel::from_runtime(name), Kernel::Gvisor, "{name}");
        }
        for name in [
            "kata", "kata-runtime", "kata-qemu", "io.containerd.kata.v2",
            "io.containerd.kata-fc.v2",
        ] {
            assert_eq!(Kernel::from_runtime(name), Kernel::Kata, "{name}");
        }
        for name in ["runc", "crun", "youki", "io.containerd.runc.v2", "sysbox-runc", "nvidia", ""]
        {
            assert_eq!(Kernel::from_runtime(name), Kernel::Shared, "{name}");
        }
    }
}
