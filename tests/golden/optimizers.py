# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/optimizers.hpp: parameters after ten steps of PyTorch's optimizers, and of Keller Jordan's Muon
(github.com/KellerJordan/Muon, its Newton-Schulz in f32 instead of bf16), and of torch_optimizer's Lamb. Run with any
PyTorch >= 2.0 and torch_optimizer 0.3.0:
python3 tests/golden/optimizers.py"""
import os
import torch
import torch_optimizer

SEGMENTS = [("wide", (6, 10)), ("tall", (9, 4)), ("table", (5, 3)), ("gain", (7,))]
STEPS, SCALE = 10, 0.5


def draw(start, count):
    """The same numbers as in tests/optim: a multiplicative hash, in [-1, 1)."""
    return torch.tensor([((i * 2654435761) % 2**32 >> 8) / 2.0**23 - 1.0 for i in range(start, start + count)])


def pieces(start):
    result = []
    for _, shape in SEGMENTS:
        count = int(torch.tensor(shape).prod())
        result.append(draw(start, count).reshape(shape))
        start += count
    return result


def rate(step):
    return 0.01 * (1 + step)


def run(make):
    values = [torch.nn.Parameter(p) for p in pieces(1)]
    optimizer = make(values)
    for step in range(STEPS):
        for p, g in zip(values, pieces(1000 * (step + 1))):
            p.grad = g * SCALE
        optimizer(step)
    return torch.cat([p.detach().flatten() for p in values])


def from_torch(kind, decay, **options):
    def make(values):
        groups = [{"params": values[:3], "weight_decay": decay}, {"params": values[3:], "weight_decay": 0.0}]
        optimizer = kind(groups, lr=1.0, **options)

        def step(i):
            for group in optimizer.param_groups:
                group["lr"] = rate(i)
            optimizer.step()

        return step

    return make


def nadam(momentum_decay):
    """NAdam with decoupled decay, by hand: older PyTorch has it coupled only."""
    def make(values):
        optimizer = torch.optim.NAdam(values, lr=1.0, betas=(0.9, 0.95), eps=1e-8, momentum_decay=momentum_decay)

        @torch.no_grad()
        def step(i):
            for p in values[:3]:
                p.mul_(1 - rate(i) * 0.1)
            optimizer.param_groups[0]["lr"] = rate(i)
            optimizer.step()

        return step

    return make


def newton_schulz(g):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def muon(values):
    matrices, rest = values[:2], values[2:]
    momentum = [torch.zeros_like(p) for p in matrices]
    adamw = torch.optim.AdamW([{"params": rest[:1], "weight_decay": 0.1}, {"params": rest[1:], "weight_decay": 0.0}],
                              lr=1.0, betas=(0.9, 0.95), eps=1e-8)

    @torch.no_grad()
    def step(i):
        for p, u in zip(matrices, momentum):
            u.mul_(0.95).add_(p.grad)
            update = newton_schulz(p.grad + 0.95 * u) * max(1, p.shape[0] / p.shape[1]) ** 0.5
            p.mul_(1 - rate(i) * 0.05)
            p.add_(update, alpha=-rate(i))
        for group in adamw.param_groups:
            group["lr"] = rate(i) * 0.015
        adamw.step()

    return step


def lamb_of_moments(values):
    """You et al. 2019 (1904.00962), algorithm 2: both moments are corrected before norms are taken."""
    state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in values]

    @torch.no_grad()
    def step(i):
        for n, (p, (m, v)) in enumerate(zip(values, state)):
            m.mul_(0.9).add_(p.grad, alpha=1 - 0.9)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=1 - 0.999)
            update = m / (1 - 0.9 ** (i + 1)) / ((v / (1 - 0.999 ** (i + 1))).sqrt() + 1e-6)
            if n < 3:
                update = update + 0.1 * p
            p.sub_(rate(i) * p.norm() / update.norm() * update)

    return step


CASES = {
    "adamw": from_torch(torch.optim.AdamW, 0.1, betas=(0.9, 0.95), eps=1e-8),
    "sgd": from_torch(torch.optim.SGD, 0.02),
    "momentum": from_torch(torch.optim.SGD, 0.02, momentum=0.9),
    "nesterov": from_torch(torch.optim.SGD, 0.02, momentum=0.9, nesterov=True),
    "muon": muon,
    "nadam": nadam(0.004),
    "nadam_half": nadam(0.0),
    "nadam_fixed": nadam(1e9),
    "lamb": from_torch(torch_optimizer.Lamb, 0.1, betas=(0.9, 0.999), eps=1e-6, clamp_value=10000.0, debias=True),
    "lamb_clamped": from_torch(torch_optimizer.Lamb, 0.1, betas=(0.9, 0.999), eps=1e-6, clamp_value=3.0, debias=True),
    "lamb_moments": lamb_of_moments,
}


def main():
    torch.set_default_dtype(torch.float32)
    lines = ["// SPDX-License-Identifier: Apache-2.0", "#ifndef CAUSEWAY_TESTS_GOLDEN_OPTIMIZERS_HPP",
             "#define CAUSEWAY_TESTS_GOLDEN_OPTIMIZERS_HPP", "",
             "// Parameters after ten steps, segment after segment without padding. Made by tests/golden/optimizers.py with",
             f"// PyTorch {torch.__version__}.", "", "// clang-format off", "namespace golden {", ""]
    for name, make in CASES.items():
        numbers = [f"{v:.9g}" for v in run(make).tolist()]
        numbers = [n if "." in n or "e" in n else n + ".0" for n in numbers]
        lines.append(f"inline constexpr float {name}[] = {{")
        for i in range(0, len(numbers), 8):
            lines.append("  " + ", ".join(n + "F" for n in numbers[i:i + 8]) + ",")
        lines += ["};", ""]
    lines += ["}  // namespace golden", "// clang-format on", "", "#endif  // CAUSEWAY_TESTS_GOLDEN_OPTIMIZERS_HPP", ""]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.hpp"), "w") as out:
        out.write("\n".join(lines))


main()
