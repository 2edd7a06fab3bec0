//! The arguments of `hermes tenant env …`.

use clap::Subcommand;

use crate::cli::ConfirmArgs;

/// What can be done with a tenant's variables.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantEnvCommand {
    /// List the variables, without their values.
    List {
        /// The tenant's id.
        tenant: String,
    },
    /// Set a variable; its value comes from stdin.
    #[command(after_help = "\
The value is read to the end of stdin, without the last line end. On a terminal it is asked for and not shown.

Example:
  hermes tenant env set acme OPENAI_API_KEY < key.txt")]
    Set {
        /// The tenant's id.
        tenant: String,
        /// The variable, in capitals.
        name: String,
    },
    /// Remove a variable.
    Unset {
        /// The tenant's id.
        tenant: String,
        /// The variable.
        name: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}
