//! The arguments of `hermes secret …`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a secret: typed without echo, or read from stdin.
    #[command(after_help = "\
The configuration then says `${keyring:NAME}` where the value belongs.

Examples:
  hermes secret set github
  printf %s \"$TOKEN\" | hermes secret set github")]
    Set(SecretArgs),
    /// List the names of secrets, where they are kept and which servers use them. No value is shown.
    #[command(visible_alias = "ls")]
    List,
    /// Remove a secret.
    #[command(visible_alias = "rm")]
    Remove(SecretArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// The secret's name.
    pub(crate) name: String,
}
