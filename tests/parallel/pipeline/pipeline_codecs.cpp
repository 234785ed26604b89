// SPDX-License-Identifier: Apache-2.0
// What activation codecs do to training: two stages of a small GPT, on four batches that come again and again.
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/subspace.hpp>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

#include <cmath>

namespace causeway::parallel {
namespace {

constexpr std::uint64_t batches = 4, steps = 112;

enum class kind : std::uint8_t { plain, direct, changes, subspace };

/// Any of four codecs, so that this file has one kind of pipeline to compile.
class chosen_codec {
  template <class Self, class F>
  static auto with(Self& self, F&& f) {
    switch (self.which_) {
      case kind::plain: return f(self.plain_);
      case kind::direct: return f(self.direct_);
      case kind::changes: return f(self.changes_);
      case kind::subspace: break;
    }
    return f(self.subspace_);
  }

 public:
  static constexpr std::string_view name = "chosen";
  static constexpr stage::activation_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  explicit chosen_codec(kind which = kind::plain) : which_{which} {}

  [[nodiscard]] bool remembers() const { return which_ == kind::changes; }

  [[nodiscard]] std::size_t most_bytes(const stage::crossing& c) const {
    return with(*this, [&](const auto& codec) { return codec.most_bytes(c); });
  }
  result<std::size_t> encode(thread_pool& pool, const stage::crossing& c, std::span<const float> values,
                             std::span<std::byte> room) {
    return with(*this, [&](auto& codec) { return codec.encode(pool, c, values, room); });
  }
  result<void> decode(thread_pool& pool, const stage::crossing& c, std::span<const std::byte> bytes,
                      std::span<float> values) {
    return with(*this, [&](auto& codec) { return codec.decode(pool, c, bytes, values); });
  }
  void begin_step() {
    with(*this, [](auto& codec) { codec.begin_step(); });
  }
  result<void> commit_step() {
    return with(*this, [](auto& codec) { return codec.commit_step(); });
  }
  [[nodiscard]] std::uint64_t agreement() const {
    return with(*this, [](const auto& codec) { return codec.agreement(); });
  }
  void serialize(auto& ar) {
    with(*this, [&](auto& codec) { codec.serialize(ar); });
  }

 private:
  kind which_;
  stage::plain plain_{};
  stage::coded<compress::bits<2>, compress::bits<8>> direct_{compress::bits<2>{{.bucket = 16}},
                                                             compress::bits<8>{{.bucket = 16}}};
  stage::delta<2, 8> changes_{};
  stage::subspace<> subspace_{{.rank = 16, .seed = 3}};
};

struct training {
  std::vector<double> losses;
  std::uint64_t bytes = 0;  ///< that both stages sent
};

training train(kind codec) {
  training out;
  std::mutex mutex;
  support::run_cluster(2, [&](std::uint32_t, environment env) {
    using support::detail::valued;
    const pipeline_options po{.micro_batches = 2, .ranks = 2};
    const auto place = valued(place_in(po, env.transport.self(), env.transport.size()));
    auto part = valued(part_of(po, *place, 4, 1));
    auto model = valued(nn::gpt::create(support::small_gpt(), kernels::cpu_backend{1}, std::move(*part)));
    trainer_options options;
    options.learning_rate = optim::constant{0.003F};
    auto t = make_trainer(std::move(*model), std::move(env), options, comm::every_step<>{},
                          pipeline<stage::one_f_one_b, chosen_codec>{po, {}, chosen_codec{codec}}, optim::adamw{});
    support::detail::check(t.start());
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      support::token_batch b{0, s % batches, 8};
      for (std::size_t i = 0; i < b.samples.size(); ++i) b.samples[i] = s % batches * 8 + i;
      losses.push_back(valued(t.step(b.view()))->loss);
    }
    const std::lock_guard lock{mutex};
    out.bytes += t.context().world().stats().bytes_sent;
    if (place->rank == 0) out.losses = std::move(losses);
  });
  return out;
}

std::string start_two_ways(kind codec) {
  std::string said;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    using support::detail::valued;
    const pipeline_options po{.micro_batches = 2, .ranks = 2};
    auto part = valued(part_of(po, *valued(place_in(po, peer, 2)), 4, 2, plan::stage_path::two_ways));
    auto model = valued(nn::gpt::create(support::small_gpt(), kernels::cpu_backend{1}, std::move(*part)));
    auto t = make_trainer(std::move(*model), std::move(env), {}, comm::every_step<>{},
                          pipeline<stage::chimera, chosen_codec>{po, {}, chosen_codec{codec}}, optim::adamw{});
    const auto started = t.start();
    if (peer == 0) said = started ? "" : started.error().text();
  });
  return said;
}

/// Mean difference of the losses in the second half.
double off(const training& a, const training& b) {
  double sum = 0;
  for (std::size_t i = steps / 2; i < steps; ++i) sum += std::abs(a.losses[i] - b.losses[i]);
  return sum / (steps / 2);
}

}  // namespace

TEST_CASE("pipeline: two bits of changes train closer to f32 than two bits of activations, a whole subspace just as f32",
          "[parallel][fast]") {
  const training exact = train(kind::plain), changes = train(kind::changes), direct = train(kind::direct);
  CAPTURE(off(changes, exact), off(direct, exact));
  CHECK(off(changes, exact) * 1.25 < off(direct, exact));
  CHECK(exact.losses.back() < exact.losses.front() - 0.8);
  CHECK(changes.bytes * 3 < exact.bytes);  // rows of 16: 8 and 20 bytes in place of 64 and 64, and what else stages say
  CHECK(off(train(kind::subspace), exact) < 0.01);
}

TEST_CASE("pipeline: samples that come the other way next time are not for codecs that remember them", "[parallel][fast]") {
  CHECK(start_two_ways(kind::direct).empty());
  CHECK_THAT(start_two_ways(kind::changes), Catch::Contains("a schedule of one way"));
}

}  // namespace causeway::parallel
