//! What can go wrong, and where.

use std::time::Duration;

/// A place that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// The `WWW-Authenticate` header of the MCP server.
    Challenge,
    /// The MCP server's identifier in its metadata.
    Resource,
    /// The metadata of the MCP server.
    ResourceMetadata,
    /// The metadata of the authorization server.
    ServerMetadata,
    /// Where clients register themselves.
    Registration,
    /// Where people consent.
    Authorization,
    /// Where tokens are issued.
    Token,
    /// Where device codes are issued.
    DeviceCode,
    /// Where people enter a device's code.
    Activation,
    /// Where tokens are given back.
    Revocation,
    Keys,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointFault {
    /// A bare status, for instance 500.
    Status(u16),
    /// No answer, ever.
    Hang,
    /// A proper answer after this time.
    Delay(Duration),
    /// 307 to this address.
    Redirect(String),
    /// 200 with this body, said to be JSON.
    Junk(String),
    /// 400 with an error whose description repeats the whole request: its form, decoded, and its `Authorization`.
    Repeat,
    /// Metadata and challenges name this address for it: for [`Endpoint::Challenge`] as `resource_metadata`, for
    /// [`Endpoint::ResourceMetadata`] as the authorization server, for [`Endpoint::ServerMetadata`] as the issuer.
    Advertised(String),
}

/// What is wrong with the redirect back to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackFault {
    /// Another `state` than the client's.
    WrongState,
    MissingState,
    /// This `iss`.
    WrongIssuer(String),
    /// No `iss`, though the metadata promise it.
    MissingIssuer,
    /// No code but an error with this description. Devices are denied.
    Refused(String),
}
