//! A stack on AWS. Each question is asked at most once, whatever the answer is.

use hookonce_aws::SdkConfig;
use tokio::sync::OnceCell;

use super::outputs::Outputs;
use crate::failure::Failure;
use crate::stack::account::{caller, signed_in};

/// A stack on AWS, by its name.
#[derive(Debug)]
pub(crate) struct Deployed {
    /// The name.
    pub(crate) name: String,
    account: OnceCell<Result<SdkConfig, Failure>>,
    outputs: OnceCell<Result<Outputs, Failure>>,
    caller: OnceCell<Result<String, Failure>>,
}

impl Deployed {
    pub(crate) fn named(name: &str) -> Self {
        let (account, outputs, caller) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { name: name.to_owned(), account, outputs, caller }
    }

    /// The account that the environment signs in to.
    ///
    /// # Errors
    /// [`Failure`] when a region or credentials are missing.
    pub(crate) async fn account(&self) -> Result<&SdkConfig, Failure> {
        self.account.get_or_init(signed_in).await.as_ref().map_err(Clone::clone)
    }

    /// What CloudFormation knows of the stack.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS refuses or does not answer.
    pub(crate) async fn outputs(&self) -> Result<&Outputs, Failure> {
        let outputs = self.outputs.get_or_init(|| async { Outputs::of(self.account().await?, &self.name).await });
        outputs.await.as_ref().map_err(Clone::clone)
    }

    /// The caller's AWS identity.
    ///
    /// # Errors
    /// [`Failure`] when AWS rejects the credentials or does not answer.
    pub(crate) async fn caller(&self) -> Result<String, Failure> {
        self.caller.get_or_init(|| async { caller(self.account().await?).await }).await.clone()
    }
}
