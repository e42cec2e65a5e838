"""What runs a study on a node: plan, ledger, executor, the processes of a batch, trees and their identity. No Hydra."""
