// SPDX-License-Identifier: Apache-2.0
// What a lost peer's absence is to presets that average local updates: the mean is that of those who are there, weighted by
// what they trained on (EDiT: by their lengths), and nothing else. Each step that a peer makes is made again here, by hand.

#include <causeway/compress/codebook_rows.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/lost_peer.hpp"

using namespace causeway;
using presets::make;
using support::doubles;
using support::exchanged;
using support::outer_by_hand;

namespace {

template <class M = support::quadratic, class MakePolicy>
void check_means(MakePolicy policy, outer_by_hand by = {}, double within = 1e-3) {
  const auto update = [&](const doubles& shared, const std::vector<exchanged>& present) {
    const doubles mean = mean_of(present);
    doubles next = shared;
    for (std::size_t i = 0; i < next.size(); ++i) next[i] += by.step(i, shared[i] - mean[i]);
    return next;
  };
  support::check_exchanges<M>(policy, update, within);
}

/// What MuLoCo's codec makes of a row: its numbers are held by tests/golden/muloco.
doubles as_sent(const doubles& row) {
  support::blocky model;
  std::vector<compress::matrix_range> tensors;
  for (const auto& s : model.parameters().segments()) {
    tensors.push_back({static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.rows),
                       static_cast<std::size_t>(s.columns), s.kind});
  }
  const compress::message_context ctx{.pool = model.backend().pool(), .matrices = tensors};
  const compress::codebook_rows<2> codec;
  const std::vector<float> values(row.begin(), row.end());
  std::vector<std::byte> bytes(codec.most_bytes(ctx, values.size()));
  bytes.resize(codec.encode(ctx, values, bytes));
  std::vector<float> sent(values.size());
  CHECK(codec.decode_add(ctx, bytes, sent, 1, {}));
  return {sent.begin(), sent.end()};
}

/// MuLoCo's exchange of everybody's 2 bits, each with an error of its own that the next round makes good.
struct muloco_by_hand {
  outer_by_hand outer{.rate = 0.8, .momentum = 0.9, .nesterov = true};
  std::vector<doubles> errors{};

  doubles operator()(const doubles& shared, const std::vector<exchanged>& present) {
    double samples = 0;
    for (const exchanged& e : present) samples += e.samples;
    errors.resize(present.size(), doubles(shared.size()));
    doubles mean(shared.size());
    for (std::size_t peer = 0; peer < present.size(); ++peer) {
      doubles& error = errors[peer];
      for (std::size_t i = 0; i < mean.size(); ++i) error[i] = 0.9 * error[i] + shared[i] - present[peer].put_in[i];
      const doubles sent = as_sent(error);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        error[i] -= sent[i];
        mean[i] += present[peer].samples / samples * sent[i];
      }
    }
    mean = as_sent(mean);
    doubles next = shared;
    for (std::size_t i = 0; i < next.size(); ++i) next[i] += outer.step(i, mean[i]);
    return next;
  }
};

/// EDiT's penalty, before any row can be an outlier: in each layer, weights by a softmax of the rows' lengths.
struct edit_by_hand {
  double clip = 10, temperature = 0.01;
  outer_by_hand outer{.rate = 0.7, .momentum = 0.9, .nesterov = true};

  doubles operator()(const doubles& shared, const std::vector<exchanged>& present) {
    doubles next = shared;
    for (const auto& layer : support::places_by_block<support::blocky>()) layer_step(layer, shared, present, next);
    return next;
  }

 private:
  void layer_step(const std::vector<std::size_t>& layer, const doubles& shared, const std::vector<exchanged>& present,
                  doubles& next) {
    doubles sum(layer.size());
    double weights = 0;
    for (const exchanged& e : present) {
      doubles row;
      for (const std::size_t i : layer) row.push_back(shared[i] - e.put_in[i]);
      const double weight = std::exp(-support::length(row) / temperature);
      weights += weight;
      for (std::size_t i = 0; i < row.size(); ++i) sum[i] += weight * row[i];
    }
    for (double& x : sum) x /= weights;
    const double factor = std::min(1.0, clip / (support::length(sum) + 1e-6));
    for (std::size_t i = 0; i < layer.size(); ++i) next[layer[i]] += outer.step(layer[i], factor * sum[i]);
  }
};

/// AdamW of vectors, whose decay is left out.
struct adam_by_hand {
  doubles first = doubles(support::first_parameters<support::quadratic>().size()), second = first;
  double power1 = 1, power2 = 1;

  doubles step(const support::logged_step& from) {
    const doubles gradient = support::gradient_at<support::quadratic>(from.before, from.tokens);
    power1 *= 0.9, power2 *= 0.95;
    doubles to = from.before;
    for (std::size_t i = 0; i < to.size(); ++i) {
      first[i] = 0.9 * first[i] + 0.1 * gradient[i];
      second[i] = 0.95 * second[i] + 0.05 * gradient[i] * gradient[i];
      to[i] -= 0.05 * first[i] / (1 - power1) / (std::sqrt(second[i] / (1 - power2)) + 1e-8);
    }
    return to;
  }
};

/// All become the mean of the first `count`.
void average(std::vector<doubles*> all, std::size_t count) {
  for (std::size_t i = 0; i < all.front()->size(); ++i) {
    double mean = 0;
    for (std::size_t peer = 0; peer < count; ++peer) mean += (*all[peer])[i] / static_cast<double>(count);
    for (doubles* const x : all) (*x)[i] = mean;
  }
}

}  // namespace

TEST_CASE("absence: of a lost peer Local SGD's mean has nothing", "[presets][fast]") {
  check_means([] { return make(presets::local_sgd_options{.local_steps = 3}); });
}

TEST_CASE("absence: of a lost peer Ravnest's mean of regions has nothing", "[presets][fast]") {
  check_means([] { return make(presets::ravnest_options{.local_steps = 3, .clusters = {}}); });
}

TEST_CASE("absence: of a lost peer FedAvg's and Photon's mean of all has nothing", "[presets][fast]") {
  check_means([] { return make(presets::fedavg_options{.local_steps = 3, .share = 1.0}); });
  check_means(
      [] {
        return make(
            presets::photon_options{.local_steps = 3, .share = 1.0, .outer_learning_rate = 0.8F, .outer_momentum = 0.5F});
      },
      {.rate = 0.8, .momentum = 0.5, .nesterov = true});
}

TEST_CASE("absence: of a lost peer DiLoCo's pseudo-gradient has nothing, and its momentum is as it was",
          "[presets][fast]") {
  const outer_by_hand outer{.rate = 0.7, .momentum = 0.9, .nesterov = true};
  check_means([] { return make(presets::diloco_options{.local_steps = 3}); }, outer);
  check_means([] { return make(presets::open_diloco_options{{.local_steps = 3}}); }, outer, 5e-3);
}

TEST_CASE("absence: of a lost peer INTELLECT-1's ring has nothing, whatever its 8 bits round", "[presets][fast]") {
  check_means([] { return make(presets::intellect1_options{.local_steps = 3}); },
              {.rate = 0.7, .momentum = 0.9, .nesterov = true}, 3e-2);
}

TEST_CASE("absence: of a lost peer MuLoCo's mean has nothing, and the others' errors are as they were", "[presets][fast]") {
  const auto policy = [] { return make(presets::muloco_options{.local_steps = 3}); };
  support::check_exchanges<support::blocky>(policy, muloco_by_hand{}, 1e-3);
}

TEST_CASE("absence: in EDiT's layers weights are those of the rows that are there", "[presets][fast]") {
  for (const double clip : {10.0, 0.02}) {  // the second is shorter than what layers change by
    const auto policy = [clip] { return make(presets::edit_options{.local_steps = 3, .temperature = 0.01, .clip = clip}); };
    support::check_exchanges<support::blocky>(policy, edit_by_hand{.clip = clip}, 1e-3);
  }
}

TEST_CASE("absence: Co-learning's rounds grow by the mean of those who are there", "[presets][fast]") {
  const double tolerance = 0.0085;
  std::vector<std::uint32_t> lengths, expected{1};
  const auto update = [&](const doubles& shared, const std::vector<exchanged>& present) {
    const doubles mean = mean_of(present);
    lengths.push_back(present.front().steps);
    const bool settles = support::distance(shared, mean) <= tolerance * support::length(shared);
    expected.push_back(settles ? std::min(8U, 2 * expected.back()) : expected.back());
    return mean;
  };
  const axis::growing_options rounds{.local_steps = 1,
                                     .most = 8,
                                     .factor = 2,
                                     .tolerance = tolerance,
                                     .cycle_end = 1.0F};  // steps that SGD alone explains
  support::check_exchanges<support::quadratic>([&] { return make(presets::co_learning_options{rounds}); }, update, 1e-3, 8);
  expected.pop_back();
  CHECK(lengths == expected);
  CHECK(lengths.back() > lengths.front());
}

TEST_CASE("absence: of a lost peer neither DES-LOC's parameters nor its moments have anything", "[presets][fast]") {
  const auto policy = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  const support::peer_logs logs =
      support::logs_of_three<support::quadratic, optim::adamw>(policy, 7);        // lost where all three are due
  const std::size_t lost_after = logs.at(2).size(), all = logs.at(0).size() - 8;  // the last exchange is of all tensors
  REQUIRE(lost_after == 12);
  REQUIRE(all > lost_after + 12);
  adam_by_hand inner[3];
  for (std::size_t s = 0; s < all; ++s) {
    INFO("step " << s);
    const std::size_t made = s + 1, peers = s < lost_after ? 3U : 2U, present = made < lost_after ? 3U : 2U;
    std::vector<doubles> next(peers);
    std::vector<doubles*> parameters, first, second;
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      next[peer] = inner[peer].step(logs.at(peer)[s]);
      parameters.push_back(&next[peer]);
      first.push_back(&inner[peer].first);
      second.push_back(&inner[peer].second);
    }
    if (made % 2 == 0) average(parameters, present);
    if (made % 4 == 0) average(first, present);
    if (made % 6 == 0) average(second, present);
    for (std::uint32_t peer = 0; peer < present; ++peer) {
      CHECK(support::distance(next[peer], logs.at(peer)[s + 1].before) < 1e-4);
    }
  }
}
