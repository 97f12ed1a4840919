//! The whole program from outside: the real binary, and a real server where one is needed.

mod administration;
mod architecture;
mod cli;
mod demo;
mod examples;
mod executions;
mod skills;
mod support;
