//! The static program behind every sandbox: `launcher` on the host, `guest` as PID 1 inside,
//! `guest-stdio` as PID 1 of a container.

mod launcher;
mod pid1;
mod shared_inodes;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("launcher") => launcher::main(),
        Some("guest") => pid1::main(),
        Some("guest-stdio") => pid1::main_in_container(),
        _ => {
            eprintln!("skillbox-guest is an internal program that skillbox starts");
            std::process::exit(2);
        }
    }
}
