"""Trains a tiny language model with the Trainer of Hugging Face. Nothing is downloaded.

    setpoint train examples/training/huggingface.py --watch

It reports nothing by itself: Setpoint reads progress and loss from what the Trainer prints.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(torch.utils.data.Dataset):
    """Sequences of numbers that count upwards."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 32
        return {"input_ids": tokens, "labels": tokens}


def main():
    config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            num_train_epochs=3,
            per_device_train_batch_size=8,
            logging_steps=4,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
        )
        trainer = Trainer(
            model=GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Counting(),
            eval_dataset=Counting(),
        )
        trainer.train()


if __name__ == "__main__":
    main()
