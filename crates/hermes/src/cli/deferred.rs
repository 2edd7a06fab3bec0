//! Arguments that are built only when their command is used: building the options of all commands takes longer than
//! most of them run.

use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand, builder::Resettable};

/// The arguments of a command that is described only when it is used or its help is read.
#[derive(Debug)]
pub(crate) struct Deferred<T>(T);

impl<T> Deferred<T> {
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| keep_listing(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| keep_listing(command, T::augment_args_for_update))
    }
}

/// Describes a command and leaves what its list says of it: the texts of its arguments' type are not for people.
fn keep_listing(command: Command, describe: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let after_help = command.get_after_help().cloned();
    let command = describe(command);
    let after_help = after_help.or_else(|| command.get_after_help().cloned());
    command
        .about(Resettable::from(about))
        .long_about(Resettable::from(long_about))
        .after_help(Resettable::from(after_help))
}

/// The arguments of a command that has verbs and nothing else.
#[derive(Debug, Args)]
pub(crate) struct SubcommandArgs<C: Subcommand> {
    #[command(subcommand)]
    pub(crate) command: C,
}
