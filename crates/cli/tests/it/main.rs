//! The whole program from outside: the real binary, and a real server where one is needed.

mod administration;
mod api;
mod architecture;
mod cli;
mod crash;
mod demo;
mod examples;
mod executions;
mod launchers;
mod load;
mod memory;
mod postgres;
mod skills;
mod support;
mod traces;
