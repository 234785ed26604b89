# SPDX-License-Identifier: Apache-2.0
"""Four rounds of SparseLoCo, written from its equations: python3 tests/golden/sparse_loco/reference.py

Sources: Sarfi et al. 2025 (arXiv 2508.15706), Algorithm 1; the authors' code, tplr-ai/templar at
c2397ac524c9d9de550a2a126ed37505d090d69f: src/tplr/compress.py (chunks, top-k, _quantize_values, decompress) and
src/tplr/neurons.py (prepare_gradient_dict, outer_step); hparams/hparams.json: 30 inner steps, k 64 of tiles of 64 by 64,
decay 0.95, outer rate 1, 4 bins over 6 deviations.

    e <- 0.95 e + (theta - theta_r);  sent = Q(top-k(e));  e <- e - sent;  theta <- theta - mean(sent)

Where sources differ: the paper's equation divides by the number of replicas, both codes by that of a coordinate's
contributors: the code's is trace.bin, the paper's over_all/trace.bin. templar's outer_step, and only that, also scales each
replica's tensor down to the median over replicas of that tensor's norm (batch_decompress with clip_norm), of two in the
middle the lower one: clipped/trace.bin. templar makes k even, for its packing of indices: k is even here.

trace.bin: parameters after each round. message.bin (int32): what replica 0 sends in the first round: the number of its
values, their coordinates (tensor by tensor, chunk by chunk, ascending), their codes."""
import os
import sys
import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import trace_model as model

K, DECAY, OUTER_RATE, LOCAL_STEPS, INNER_RATE = 20, 0.95, 1.0, 2, 0.5


def over_all(places, values, shape):
    """Each coordinate's sum over all replicas, divided by their number."""
    total = numpy.zeros(shape)
    for where, what in zip(places, values):
        total[numpy.arange(shape[0])[:, None], where] += what
    return total / model.PEERS


def clipped(places, values, shape):
    """The contributors' mean of what is no longer than the median: torch.median is the lower one of two in the middle."""
    norms = [numpy.linalg.norm(v) for v in values]
    median = sorted(norms)[(len(norms) - 1) // 2]
    return model.contributor_mean(places, [v * min(1, median / (n + 1e-8)) for v, n in zip(values, norms)], shape)


def run(mean_of):
    """Parameters after each round, and what replica 0 sends in the first one."""
    theta = model.first_parameters()
    error = [[numpy.zeros_like(x) for x in theta] for _ in range(model.PEERS)]
    rounds, coordinates, codes = [], [], []
    for number in range(model.ROUNDS):
        mean, offset = [], 0
        for t, x in enumerate(theta):
            places, values = [], []
            for peer in range(model.PEERS):
                steps = range(number * LOCAL_STEPS, (number + 1) * LOCAL_STEPS)
                delta = INNER_RATE * sum(model.gradients(peer, s)[t] for s in steps)
                e = DECAY * error[peer][t] + delta
                chunks, _ = model.to_chunks(e)
                where = model.top_k(chunks, K)
                code, sent = model.bucket_means(numpy.take_along_axis(chunks, where, axis=1), bits=2)
                left = chunks.copy()
                numpy.put_along_axis(left, where, numpy.take_along_axis(chunks, where, axis=1) - sent, axis=1)
                error[peer][t] = model.from_chunks(left, e.shape)
                places.append(where)
                values.append(sent)
                if number == 0 and peer == 0:
                    flat = model.to_chunks(offset + numpy.arange(e.size).reshape(e.shape))[0]
                    coordinates.append(numpy.take_along_axis(flat, where, axis=1).ravel())
                    codes.append(code.ravel())
            mean.append(model.from_chunks(mean_of(places, values, chunks.shape), x.shape))
            offset += x.size
        theta = [x - OUTER_RATE * m for x, m in zip(theta, mean)]
        rounds.append(theta)
    return rounds, coordinates, codes


rounds, coordinates, codes = run(model.contributor_mean)
model.write_rounds(__file__, rounds)
coordinates, codes = numpy.concatenate(coordinates), numpy.concatenate(codes)
model.write(__file__, "message.bin", numpy.concatenate([[codes.size], coordinates, codes]).astype("<i4"))
here = os.path.dirname(os.path.abspath(__file__))
model.write_rounds(os.path.join(here, "over_all", "reference.py"), run(over_all)[0])
model.write_rounds(os.path.join(here, "clipped", "reference.py"), run(clipped)[0])
