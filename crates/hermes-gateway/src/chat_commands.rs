//! The slash commands of chats: which there are, how they are typed, what they do, and what is said.
//!
//! [`parse_command`] reads a message, [`execute()`] does what it says through a [`ChatCommandContext`], which the gateway
//! implements, and returns the [`CommandReply`] for the chat.

mod approvals;
mod context;
mod execute;
mod help;
mod parse;
mod reload;
mod table;
mod texts;

pub use self::{
    approvals::{ApprovalWord, approval_word, execute_approval_word},
    context::{
        BackgroundLine, ChatCommandContext, CommandCaller, CommandError, CommandFuture,
        CompressOutcome, ModelFacts, ModelRequest, ModelScope, PlatformLine, QueueOutcome,
        SessionLine, SkillLine, StatusFacts, StopOutcome, UndoOutcome, UsageFacts, WaitingApproval,
        write_home_channel,
    },
    execute::{CommandReply, execute, execute_unknown},
    parse::{CommandRequest, TypedCommand, parse_button, parse_command, request_for},
    table::{ChatCommand, CommandEffect, CommandName, command_specs, find_command, is_stale},
    texts::{describe_tokens, servers_by_state},
};

#[cfg(test)]
mod tests;
