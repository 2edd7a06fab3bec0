//! Tool calls from the registered name to the JSON that the model gets.

mod arguments;
mod batch;
mod interrupt;
mod outcome;
mod retry;
mod timeout;
mod utilities;
