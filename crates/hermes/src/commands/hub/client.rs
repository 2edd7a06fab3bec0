//! The command line's side of a Hub: where it is, who asks, what is asked, and how answers are shown.
//!
//! Requests come from the Hub's own table of operations, so a verb names an operation and its arguments and nothing
//! else: route, place and spelling are the table's.

pub(crate) mod call;
mod connection;
mod events;
mod feed;
mod show;
mod token;
pub(crate) mod upload;

pub(crate) use self::{
    call::HubCall,
    events::RunWatcher,
    feed::EventFeed,
    show::{Column, plain_text},
    token::environment_variables,
};
pub(crate) use crate::commands::hub::client::connection::{HubClient, HubReply, PageRequest};
