//! Rights that members of an input need beyond those of their operation: one table, which the dispatcher uses for REST
//! and MCP alike.
//!
//! A member that does what another operation does needs that operation's right. Path arguments are not listed: they
//! select the tenant, which the gate has checked.

use serde_json::{Map, Value};

mod members;

use super::{ArgumentLocation, Gate, HttpMethod, Operation, input::to_camel_case, table};
use crate::{Problem, api_types::Scope, auth::Principal};

use MemberRight::{Inherited, Parts, SameAs, Scoped, WholeHub};

/// The right that a member needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRight {
    /// The right of its own operation.
    Inherited,
    /// The right of this operation, which does the same.
    SameAs(&'static str),
    Scoped(Scope),
    /// A token that is not limited to some tenants.
    WholeHub,
    /// The rights of each of its own members.
    Parts(&'static [(&'static str, MemberRight)]),
}

pub(super) fn member_rights(operation: &str) -> &'static [(&'static str, MemberRight)] {
    let row = members::RIGHTS.iter().find(|(name, _)| *name == operation);
    row.map_or(&[], |(_, members)| members)
}

impl Operation {
    /// The right of a member of the input; `None` if it is not in the table.
    pub fn member_right(&self, name: &str) -> Option<MemberRight> {
        find_right(self.rights, name)
    }

    pub(crate) fn check_rights(
        &self,
        principal: &Principal,
        arguments: &Map<String, Value>,
    ) -> Result<(), Problem> {
        for (name, value) in arguments {
            match self.member_right(name) {
                Some(right) if is_requested(self.method(), value) => {
                    check_member(principal, name, right, Some(value))?;
                }
                None if self.is_outside_route(name) => {
                    let error = format!("`{}.{name}` is missing in the table of rights", self.name);
                    return Err(Problem::internal(&error));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn is_outside_route(&self, name: &str) -> bool {
        let mut members = self.input.arguments.iter();
        members.any(|member| member.name == name && member.location != ArgumentLocation::Path)
    }
}

/// Whether a member requests something. In a patch, `null` and `false` do.
fn is_requested(verb: HttpMethod, value: &Value) -> bool {
    verb == HttpMethod::Patch || !matches!(value, Value::Null | Value::Bool(false))
}

fn find_right(members: &[(&str, MemberRight)], name: &str) -> Option<MemberRight> {
    let member = members.iter().find(|(known, _)| *known == name);
    member.map(|(_, right)| *right)
}

/// Checks a member. Without a value, or with one that is not an object, all its parts are checked.
fn check_member(
    principal: &Principal,
    name: &str,
    right: MemberRight,
    value: Option<&Value>,
) -> Result<(), Problem> {
    match right {
        Inherited => Ok(()),
        Scoped(scope) => require_scope(principal, name, scope),
        WholeHub => require_whole_hub(principal, name),
        SameAs(operation) => {
            let Some(operation) = table().find(operation) else {
                return Err(Problem::internal(&format!("there is no `{operation}`")));
            };
            if let Some(scope) = operation.required_scope() {
                require_scope(principal, name, scope)?;
            }
            if operation.gate == Gate::WholeHub {
                require_whole_hub(principal, name)?;
            }
            check_nested(principal, name, operation, value)
        }
        Parts(parts) => {
            for (part, right) in parts {
                let value = match value {
                    Some(Value::Object(members)) => match members.get(*part) {
                        Some(value) => Some(value),
                        None => continue,
                    },
                    _ => None,
                };
                check_member(principal, &format!("{name}.{part}"), *right, value)?;
            }
            Ok(())
        }
    }
}

/// Checks the members of a value that is the input of another operation, or a mapping of such inputs.
fn check_nested(
    principal: &Principal,
    name: &str,
    operation: &Operation,
    value: Option<&Value>,
) -> Result<(), Problem> {
    let Some(Value::Object(members)) = value else {
        return Ok(());
    };
    for (member, value) in members {
        let name = format!("{name}.{member}");
        let mut rights = operation.rights.iter();
        let right = rights.find(|(known, _)| known == member || to_camel_case(known) == *member);
        match right {
            Some((_, right)) => check_member(principal, &name, *right, Some(value))?,
            None => check_nested(principal, &name, operation, Some(value))?,
        }
    }
    Ok(())
}

fn require_scope(principal: &Principal, name: &str, scope: Scope) -> Result<(), Problem> {
    if principal.scopes.contains(scope) {
        return Ok(());
    }
    let message = format!(
        "`{name}` needs the scope `{scope}`, which this token lacks; use one that has it, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .with_reason("scope")
        .with_detail(name, format!("needs `{scope}`")))
}

fn require_whole_hub(principal: &Principal, name: &str) -> Result<(), Problem> {
    if principal.tenants.is_none() {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not for a token with a list of tenants; use one without, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .with_reason("tenants")
        .with_detail(name, "needs a token without a list of tenants"))
}
