// SPDX-License-Identifier: Apache-2.0
// What activation codecs do to training: two stages of a small GPT, on batches that come again and again.
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/adaptive_top_k.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/subspace.hpp>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

#include <cstdio>

namespace causeway::parallel {
namespace {

struct outcome {
  std::vector<double> losses;
  std::uint64_t bytes = 0;  // of the first stage
};

template <class Make>
outcome train(Make make, std::uint64_t steps) {
  using Codec = decltype(make());
  outcome out;
  support::run_cluster(2, [&](std::uint32_t, environment env) {
    const pipeline_options po{.micro_batches = 2, .ranks = 2};
    const auto place = support::detail::valued(place_in(po, env.transport.self(), env.transport.size()));
    auto part = support::detail::valued(part_of(po, *place, 4, 1));
    auto model = support::detail::valued(nn::gpt::create(support::small_gpt(4), kernels::cpu_backend{1}, std::move(*part)));
    trainer_options options;
    options.learning_rate = optim::constant{0.003F};
    auto t = make_trainer(std::move(*model), std::move(env), options, comm::every_step<>{},
                          pipeline<stage::one_f_one_b, Codec>{po, {}, make()}, optim::adamw{});
    support::detail::check(t.start());
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      support::token_batch b{0, s % 4, 8};
      for (std::size_t i = 0; i < b.samples.size(); ++i) b.samples[i] = s % 4 * 8 + i;
      losses.push_back(support::detail::valued(t.step(b.view()))->loss);
    }
    if (place->rank != 0) return;
    out.losses = losses;
    out.bytes = t.context().world().stats().bytes_sent;
  });
  return out;
}

double off(const outcome& a, const outcome& b, std::size_t first) {
  double sum = 0;
  for (std::size_t i = first; i < a.losses.size(); ++i) sum += std::abs(a.losses[i] - b.losses[i]);
  return sum / static_cast<double>(a.losses.size() - first);
}

}  // namespace

TEST_CASE("pipeline: x", "[parallel][fast]") {
  constexpr std::uint64_t steps = 160;
  const auto exact = train([] { return stage::plain{}; }, steps);
  std::printf("plain %f -> %f, %lu bytes\n", exact.losses.front(), exact.losses.back(), exact.bytes);
  const auto note = [&](const char* name, const outcome& o) {
    std::printf("%-20s end %f off all %f late %f bytes %lu\n", name, o.losses.back(), off(o, exact, 0), off(o, exact, 80),
                o.bytes);
  };
  note("fp16", train([] { return stage::coded<compress::fp16>{}; }, steps));
  note("bits4/8", train(stage::coded<compress::bits<4>, compress::bits<8>>{compress::bits<4>{{.bucket = 16}},
                                                                           compress::bits<8>{{.bucket = 16}}},
                        steps));
  note("bits2/8", train(stage::coded<compress::bits<2>, compress::bits<8>>{compress::bits<2>{{.bucket = 16}},
                                                                           compress::bits<8>{{.bucket = 16}}},
                        steps));
  note("delta4/8", train([] { return stage::delta<4, 8>{}; }, steps));
  note("delta2/8", train([] { return stage::delta<2, 8>{}; }, steps));
  note("subspace 16 of 16", train([] { return stage::subspace<>{{.rank = 16}}; }, steps));
  note("subspace 8 of 16", train([] { return stage::subspace<>{{.rank = 8}}; }, steps));
  note("topk ratio 10", train([] { return stage::adaptive_top_k<>{{.ratio = 10}}; }, steps));
}
}  // namespace causeway::parallel
