//! Everything an authorization server remembers.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    client::{ClientOrigin, RegisteredClient},
    device::DeviceGrant,
    grant::{AccessToken, AuthorizationCode, GrantFamily, RefreshToken},
    jwt::{PublicKey, TokenIssuer, random_token},
    setup::{CallbackFault, Endpoint, EndpointFault},
};

/// What is known, issued and ordered.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) clients: HashMap<String, RegisteredClient>,
    pub(super) documents: HashMap<String, Value>,
    pub(super) issuers: HashMap<String, PublicKey>,
    pub(super) aliases: HashMap<String, String>,
    /// The MCP servers tokens are issued for.
    pub(super) resources: Vec<String>,
    pub(super) codes: HashMap<String, AuthorizationCode>,
    pub(super) access: HashMap<String, AccessToken>,
    pub(super) refresh: HashMap<String, RefreshToken>,
    pub(super) devices: HashMap<String, DeviceGrant>,
    /// Families of tokens that were withdrawn.
    pub(super) withdrawn: HashSet<GrantFamily>,
    /// Names of signed tokens that were used.
    pub(super) used: HashSet<String>,
    pub(super) faults: HashMap<Endpoint, EndpointFault>,
    pub(super) callback_fault: Option<CallbackFault>,
    pub(super) lifetime: Duration,
    pub(super) clock_offset: i64,
    pub(super) secrets: Vec<String>,
    last_family: u64,
}

impl Ledger {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            ..Self::default()
        }
    }

    /// Makes a text nobody can guess and remembers it as a secret.
    pub(super) fn new_secret(&mut self, kind: &str) -> String {
        let secret = format!("{kind}-{}", random_token());
        self.secrets.push(secret.clone());
        secret
    }

    /// Remembers a text as a secret.
    pub(super) fn remember(&mut self, secret: &str) {
        if !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_owned());
        }
    }

    pub(super) fn new_family(&mut self) -> GrantFamily {
        self.last_family += 1;
        GrantFamily(self.last_family)
    }

    pub(super) fn add_client(&mut self, client: RegisteredClient) {
        if let super::client::ClientProof::Secret(secret) = &client.proof {
            let secret = secret.clone();
            self.remember(&secret);
        }
        self.clients.insert(client.id.clone(), client);
    }

    pub(super) fn publish(&mut self, url: &str, document: Value) {
        self.documents.insert(url.to_owned(), document);
    }

    pub(super) fn trust(&mut self, issuer: &TokenIssuer) {
        let name = issuer.name().to_owned();
        self.issuers.insert(name, issuer.public_key());
    }

    pub(super) fn federate(&mut self, client: &str, known_as: &str) {
        self.aliases.insert(client.to_owned(), known_as.to_owned());
    }

    pub(super) fn fail(&mut self, endpoint: Endpoint, fault: EndpointFault) {
        self.faults.insert(endpoint, fault);
    }

    pub(super) fn mend(&mut self, endpoint: Endpoint) {
        self.faults.remove(&endpoint);
    }

    pub(super) fn expire_access_tokens(&mut self) {
        let now = Instant::now();
        for access in self.access.values_mut() {
            access.ends = now;
        }
    }

    pub(super) fn revoke_everything(&mut self) {
        let access = self.access.values().map(|access| access.grant.family);
        let refresh = self.refresh.values().map(|refresh| refresh.grant.family);
        let families: Vec<GrantFamily> = access.chain(refresh).collect();
        self.withdrawn.extend(families);
    }

    pub(super) fn forget_registrations(&mut self) {
        self.clients
            .retain(|_, client| client.origin != ClientOrigin::Registered);
    }

    /// Notes the use of a signed token; whether it is the first.
    pub(super) fn is_first_use(&mut self, name: &str) -> bool {
        !name.is_empty() && self.used.insert(name.to_owned())
    }
}
