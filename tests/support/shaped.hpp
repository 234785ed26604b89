// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SHAPED_HPP
#define CAUSEWAY_TESTS_SUPPORT_SHAPED_HPP

// A model with the shapes of a transformer and gradients out of a hat: for counting bytes, where only shapes matter.

#include <causeway/core/rng.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/quadratic.hpp"

namespace support {

class shaped : public test_model {
 public:
  using self = shaped;

  explicit shaped(int blocks = 6, std::int64_t width = 128)
      : test_model{parameters_of(blocks, width), windows{}, [](causeway::parameter_store&, tokens) { return 1.0; }} {}

 private:
  static causeway::parameter_store parameters_of(int blocks, std::int64_t width) {
    using causeway::parameter_kind;
    causeway::parameter_store store;
    store.add("table", parameter_kind::embedding, 1024, width);
    for (int b = 0; b < blocks; ++b) {
      const std::string name = "block" + std::to_string(b);
      store.add(name + ".norm", parameter_kind::vector, 1, 2 * width, b);
      store.add(name + ".qkv", parameter_kind::matrix, 3 * width, width, b);
      store.add(name + ".out", parameter_kind::matrix, width, width, b);
      store.add(name + ".up", parameter_kind::matrix, 4 * width, width, b);
      store.add(name + ".down", parameter_kind::matrix, width, 4 * width, b);
    }
    store.add("norm", parameter_kind::vector, 1, width, blocks);
    store.allocate();
    causeway::rng random{1};
    for (float& x : store.values()) x = random.uniform() - 0.5F;
    return store;
  }

  /// A window into a row of noise, at another place for each step and piece: cheap, and different everywhere.
  class windows {
   public:
    windows() {
      causeway::rng random{2};
      for (float& x : noise_) x = random.uniform() - 0.5F;
    }
    double operator()(causeway::parameter_store& store, tokens inputs, float scale, std::uint64_t stream) const {
      std::uint64_t draw = causeway::mix(stream, static_cast<std::uint64_t>(inputs[0]));
      for (const auto& s : store.segments()) {
        for (std::int64_t i = 0; i < s.size(); i += length) {
          const float* const noise = noise_.data() + (draw = causeway::mix(draw)) % (noise_.size() - length);
          float* const g = store.gradients().data() + s.offset + i;
          for (std::int64_t j = 0; j < std::min(length, s.size() - i); ++j) g[j] += scale * noise[j];
        }
      }
      return 1.0;
    }

   private:
    static constexpr std::int64_t length = 1024;
    std::vector<float> noise_ = std::vector<float>(1 << 16);
  };
};

/// Bytes that a peer sends in `steps` steps of a run in progress, headers included: `lead` steps pass first. The mean over
/// the peers.
template <class Inner, class MakePolicy>
double bytes_sent(std::uint32_t peers, std::uint64_t lead, std::uint64_t steps, MakePolicy make) {
  std::vector<double> sent(peers);
  run_cluster(peers, [&](std::uint32_t peer, causeway::environment env) {
    causeway::trainer_options options;
    options.clip_norm = 0;
    options.hash_every = 0;
    auto t = causeway::make_trainer(test_model{shaped{}}, std::move(env), options, make(), Inner{});
    const auto check = [](const auto& outcome) {
      if (!outcome) throw std::runtime_error{outcome.error().text()};
    };
    check(t.start());
    std::uint64_t before = 0;
    for (std::uint64_t s = 0; s < lead + steps; ++s) {
      if (s == lead) before = t.context().transport().stats().bytes_sent;
      const auto tokens = tokens_of(peer, s);
      check(t.step({tokens, tokens, 1}));
    }
    sent[peer] = static_cast<double>(t.context().transport().stats().bytes_sent - before);
    check(t.finish());
  });
  double sum = 0;
  for (const double s : sent) sum += s / peers;
  return sum;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SHAPED_HPP
