//! The static program behind every sandbox: `launcher` on the host, `guest` as PID 1 inside.

mod launcher;
mod pid1;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("launcher") => launcher::main(),
        Some("guest") => pid1::main(),
        _ => {
            eprintln!("skillbox-guest is started by skillbox, not by hand");
            std::process::exit(2);
        }
    }
}
