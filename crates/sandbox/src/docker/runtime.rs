//! What stands between a container and the kernel of its machine, told by the name of its OCI
//! runtime. Operators choose these names, so the usual ones are known with whatever is added to
//! them: `runsc-kvm`, `io.containerd.kata.v2`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The engine's own, shared with everything there: `runc`, `crun` and every name that says
    /// nothing else.
    Shared,
    /// One in user space.
    Gvisor,
    /// One in a virtual machine.
    Kata,
}

impl Kernel {
    pub fn under(runtime: &str) -> Kernel {
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
    fn usual_names_are_known_with_what_is_added_to_them() {
        for name in ["runsc", "runsc-kvm", "io.containerd.runsc.v1", "my-runsc", "gvisor"] {
            assert_eq!(Kernel::under(name), Kernel::Gvisor, "{name}");
        }
        for name in [
            "kata", "kata-runtime", "kata-qemu", "io.containerd.kata.v2",
            "io.containerd.kata-fc.v2",
        ] {
            assert_eq!(Kernel::under(name), Kernel::Kata, "{name}");
        }
        for name in ["runc", "crun", "youki", "io.containerd.runc.v2", "sysbox-runc", "nvidia", ""]
        {
            assert_eq!(Kernel::under(name), Kernel::Shared, "{name}");
        }
    }
}
