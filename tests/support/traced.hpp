// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TRACED_HPP
#define CAUSEWAY_TESTS_SUPPORT_TRACED_HPP

// The model of the presets' golden traces (tests/golden/trace_model.py): five tensors of very different scales, gradients
// that are given by a hash, and a comparison with the parameters that an independent reference has after each round.

#include <causeway/optim/schedule.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/quadratic.hpp"

namespace support::traced {

inline constexpr std::uint32_t peers = 3, rounds = 4;

struct shape {
  const char* name;
  causeway::parameter_kind kind;
  std::int64_t rows, columns;
  float scale;
};
inline constexpr shape shapes[] = {{"table", causeway::parameter_kind::embedding, 10, 48, 0.3F},
                                   {"hidden", causeway::parameter_kind::matrix, 64, 48, 1.0F},
                                   {"narrow", causeway::parameter_kind::matrix, 24, 20, 0.01F},
                                   {"gain", causeway::parameter_kind::vector, 1, 96, 0.1F},
                                   {"bias", causeway::parameter_kind::vector, 1, 30, 3.0F}};

/// Number `at` of a stream, in [-1, 1).
inline float uniform(std::uint32_t stream, std::uint64_t step, std::uint32_t at) {
  auto h = static_cast<std::uint32_t>((stream * 1009 + step) * 8192 + at);
  h = (h ^ (h >> 16U)) * 0x7FEB352DU;
  h = (h ^ (h >> 15U)) * 0x846CA68BU;
  h ^= h >> 16U;
  return static_cast<float>(h >> 8U) * 0x1.0p-23F - 1.0F;
}

/// Peer `peer`'s gradient in step `step`, without its tensor's scale.
inline float gradient(std::uint32_t peer, std::uint64_t step, std::uint32_t at) {
  const float own = uniform(peer, step, at), common = uniform(1001, step, at);
  return own * own * own + common * common * common;
}

class model : public test_model {
 public:
  using self = model;

  /// `pull` times the parameters is a part of the gradient.
  explicit model(std::uint32_t peer, float pull = 0)
      : test_model{
            start(),
            [peer, pull, step = std::uint64_t{0}](causeway::parameter_store& store, tokens, float, std::uint64_t) mutable {
              for_values(store, [&](float& value, float& g, float scale, std::uint32_t at) {
                g += scale * gradient(peer, step, at) + pull * value;
              });
              ++step;
              return 1.0;
            },
            [](causeway::parameter_store&, tokens) { return 1.0; }} {}

 private:
  static causeway::parameter_store start() {
    causeway::parameter_store store;
    for (const shape& s : shapes) store.add(s.name, s.kind, s.rows, s.columns);
    store.allocate();
    for_values(store, [&](float& value, float&, float scale, std::uint32_t at) { value = scale * uniform(1000, 0, at); });
    return store;
  }

  template <class F>
  static void for_values(causeway::parameter_store& store, F&& f) {
    std::uint32_t at = 0;
    for (std::size_t s = 0; s < std::size(shapes); ++s) {
      for (std::int64_t i = 0; i < store.segments()[s].size(); ++i) {
        f(store.value(s)[i], store.gradient(s)[i], shapes[s].scale, at++);
      }
    }
  }
};

/// tests/golden/<preset>/<name>.
template <class T>
std::vector<T> read(const std::string& preset, const std::string& name) {
  const auto path = std::filesystem::path{__FILE__}.parent_path() / ".." / "golden" / preset / name;
  std::ifstream in{path, std::ios::binary};
  REQUIRE(in.good());
  std::vector<T> values(std::filesystem::file_size(path) / sizeof(T));
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

/// Every tensor's padding is zero, and its values are those that begin at `expected`, within 1e-5 of its largest.
inline bool agrees(std::span<const causeway::parameter_segment> segments, std::span<const float> got,
                   const float* expected) {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto first = static_cast<std::size_t>(segments[s].offset), size = static_cast<std::size_t>(segments[s].size());
    const std::size_t end = s + 1 < segments.size() ? static_cast<std::size_t>(segments[s + 1].offset) : got.size();
    float largest = 0, worst = 0;
    for (std::size_t i = 0; i < size; ++i, ++expected) {
      largest = std::max(largest, std::abs(*expected));
      worst = std::max(worst, std::abs(got[first + i] - *expected));
    }
    INFO(segments[s].name << " is off by " << worst / largest << " of its largest value");
    CHECK(worst <= 1e-5F * largest);
    if (worst > 1e-5F * largest) return false;
    for (std::size_t i = first + size; i < end; ++i) {
      if (got[i] != 0) return false;
    }
  }
  return true;
}

/// Trains with a preset, and compares what all peers hold after each `local_steps` steps with the preset's trace.
template <class MakePolicy>
void replay_as(bool reversed, const std::string& preset, std::uint64_t local_steps, causeway::optim::schedule rate,
               float weight_decay, MakePolicy make, float pull) {
  const auto expected = read<float>(preset, "trace.bin");
  std::vector<std::vector<float>> seen(peers * rounds);
  std::vector<causeway::parameter_segment> segments;
  run_cluster(peers, [&](std::uint32_t peer, causeway::environment env) {
    const causeway::trainer_options options{.learning_rate = rate, .clip_norm = 0};
    auto t = causeway::make_trainer(test_model{model{reversed ? peers - 1 - peer : peer, pull}}, std::move(env), options,
                                    make(), causeway::optim::sgd{{.weight_decay = weight_decay}});
    const auto check = [](const auto& outcome) {
      if (!outcome) throw std::runtime_error{outcome.error().text()};
    };
    check(t.start());
    const std::vector<std::int32_t> token{1};
    for (std::uint64_t s = 0; s < rounds * local_steps; ++s) {
      check(t.step({token, token, 1}));
      if ((s + 1) % local_steps != 0) continue;
      const std::span<const float> now = t.context().parameters();
      seen[peer * rounds + s / local_steps].assign(now.begin(), now.end());
    }
    if (peer == 0) segments.assign(t.context().view().segments.begin(), t.context().view().segments.end());
    check(t.finish());
  });
  for (std::uint32_t i = 0; i < peers * rounds; ++i) {
    INFO("peer " << i / rounds << " after round " << i % rounds << (reversed ? ", numbers turned round" : ""));
    if (!agrees(segments, seen[i], expected.data() + i % rounds * expected.size() / rounds)) break;
  }
}

/// With the peers' numbers as in the trace, and turned round, which changes nothing.
template <class MakePolicy>
void replay(const std::string& preset, std::uint64_t local_steps, causeway::optim::schedule rate, float weight_decay,
            MakePolicy make, float pull = 0) {
  replay_as(false, preset, local_steps, rate, weight_decay, make, pull);
  replay_as(true, preset, local_steps, rate, weight_decay, make, pull);
}

}  // namespace support::traced

#endif  // CAUSEWAY_TESTS_SUPPORT_TRACED_HPP
