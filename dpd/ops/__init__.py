"""What talks to AWS: each module takes clients, so that tests give it botocore's Stubber."""
