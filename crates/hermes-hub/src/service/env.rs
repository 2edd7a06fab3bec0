//! Variables of a tenant's environment. Their values are write-only.

use std::collections::BTreeMap;

use hermes_protocol::EnvRules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TenantRef;
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::{EnvVariable, last4},
    service::call::{Call, Reply},
    storage::{encryption::EncryptionContext, state::NewVariable},
    tenants::reserved_variables::{ReservedVariable, classify_variable},
};

const MAX_VALUE_BYTES: usize = 32 * 1024;

/// The variables of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnvList {
    env: Vec<EnvVariable>,
}

/// A variable and its value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetVariable {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Capitals, digits and underscores.
    name: String,
    /// Its value, up to 32 KiB; it is never shown again.
    value: String,
}

/// A variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnsetVariable {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Its name.
    name: String,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let env = call.hub.state().env(call.tenant_id()?).await?;
    Reply::json(&EnvList { env })
}

pub(crate) async fn set(call: Call, input: SetVariable) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let variable = encrypt_variables(
        &call.hub,
        &record.uid,
        BTreeMap::from([(input.name, input.value)]),
    )?
    .pop();
    let variable = variable
        .ok_or_else(|| Problem::internal(&"a variable is missing after it was encrypted"))?;
    call.hub
        .state()
        .set_env(&record.id, variable, call.entry.clone())
        .await?;
    call.hub.settings_changed(&record.id);
    Ok(Reply::empty())
}

pub(crate) async fn unset(call: Call, input: UnsetVariable) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    check_name_format(&input.name)?;
    call.hub
        .state()
        .unset_env(&record.id, &input.name, call.entry.clone())
        .await?;
    call.hub.settings_changed(&record.id);
    Ok(Reply::empty())
}

/// Validates variables and encrypts their values.
pub(crate) fn encrypt_variables(
    hub: &Hub,
    uid: &str,
    variables: BTreeMap<String, String>,
) -> Result<Vec<NewVariable>, Problem> {
    let effective_documents = hub.effective_documents();
    variables
        .into_iter()
        .map(|(name, value)| {
            check_name(&name, &effective_documents.policy().env)?;
            if value.len() > MAX_VALUE_BYTES {
                return Err(Problem::new(
                    ProblemCode::PayloadTooLarge,
                    format!("the value of `{name}` is larger than 32 KiB"),
                )
                .with_detail(name, "too long"));
            }
            if value.contains('\0') {
                return Err(Problem::invalid(format!(
                    "the value of `{name}` holds a NUL character"
                ))
                .with_detail(name, "NUL"));
            }
            let sealed = hub
                .key()
                .encrypt(&EncryptionContext::variable(uid, &name), &value)
                .map_err(|error| Problem::internal(&error))?;
            Ok(NewVariable {
                encrypted: sealed,
                last4: last4(&value),
                name,
            })
        })
        .collect()
}

fn check_name_format(name: &str) -> Result<(), Problem> {
    let is_head = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    let is_well_formed = (1..=128).contains(&name.len())
        && name.bytes().next().is_some_and(is_head)
        && name
            .bytes()
            .all(|byte| is_head(byte) || byte.is_ascii_digit());
    if is_well_formed {
        return Ok(());
    }
    Err(Problem::invalid(
        "a variable has 1 to 128 capitals, digits and underscores, and begins with no digit",
    )
    .with_detail("name", "form"))
}

fn check_name(name: &str, rules: &EnvRules) -> Result<(), Problem> {
    check_name_format(name)?;
    let refused = match classify_variable(name) {
        Some(ReservedVariable::SetByHub) => {
            Some(format!("`{name}` is the Hub's to set; choose another name"))
        }
        Some(ReservedVariable::LoadsCode(who)) => Some(format!(
            "`{name}` decides what code is loaded or run ({who}), which is not for variables of tenants; choose \
             another name, or set it in the command that needs it"
        )),
        None => None,
    };
    if let Some(message) = refused {
        return Err(Problem::new(ProblemCode::Unprocessable, message)
            .with_reason("reserved_variable")
            .with_detail("name", "reserved"));
    }
    if !rules.allows(name) {
        let problem = Problem::new(
            ProblemCode::Unprocessable,
            format!("the policy does not allow `{name}` (`env.deny`)"),
        );
        return Err(problem.with_detail("name", "denied by policy"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(patterns: &[&str]) -> EnvRules {
        EnvRules {
            deny: patterns.iter().map(|&pattern| pattern.into()).collect(),
        }
    }

    #[test]
    fn names_that_could_take_over_a_process_are_refused() {
        for name in [
            "PATH",
            "HOME",
            "LD_PRELOAD",
            "DYLD_X",
            "HERMES_HOME",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "BASH_ENV",
        ] {
            assert_eq!(
                check_name(name, &denied(&[])).unwrap_err().code,
                ProblemCode::Unprocessable,
                "{name}"
            );
        }
        for name in ["", "a", "1A", "A-B", "A=B", "Ä"] {
            assert_eq!(
                check_name(name, &denied(&[])).unwrap_err().code,
                ProblemCode::InvalidArgument,
                "{name}"
            );
        }
        assert!(check_name("OPENAI_API_KEY", &denied(&[])).is_ok());
        assert!(check_name("OPENAI_API_KEY", &denied(&["OPENAI_*"])).is_err());
    }
}
