// SPDX-License-Identifier: Apache-2.0
// What a lost peer's absence is to presets that send a part of what changed, and to those that average gradients: the mean
// is that of those who are there, coordinate by coordinate where not all of it is sent, and what a peer kept back stays its
// own. Each step and each exchange is made again here, by hand.

#include <causeway/comm/every_step.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lost_peer.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::doubles;
using support::exchanged;
using support::logged_step;

namespace {

/// A message of a codec, as its receivers read it.
struct read_message {
  std::vector<float> values, counts;
};

/// The tensors of the little transformer, and a codec's bytes for rows of it.
template <class Codec>
class reader {
 public:
  explicit reader(Codec codec) : codec_{std::move(codec)} {
    for (const auto& s : model_.parameters().segments()) {
      tensors_.push_back({static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.rows),
                          static_cast<std::size_t>(s.columns), s.kind});
    }
  }

  read_message send(std::span<const float> row) {
    const compress::message_context ctx{.pool = model_.backend().pool(), .matrices = tensors_};
    std::vector<std::byte> bytes(codec_.most_bytes(ctx, row.size()));
    bytes.resize(codec_.encode(ctx, row, bytes));
    read_message m{std::vector<float>(row.size()), std::vector<float>(row.size())};
    CHECK(codec_.decode_add(ctx, bytes, m.values, 1, m.counts));
    return m;
  }
  /// Coefficients to values.
  void invert(std::vector<float>& row) {
    const compress::message_context ctx{.pool = model_.backend().pool(), .matrices = tensors_};
    collective::detail::invert(codec_, ctx, std::span{row});
  }
  [[nodiscard]] const std::vector<compress::matrix_range>& tensors() const { return tensors_; }

 private:
  blocky model_;
  Codec codec_;
  std::vector<compress::matrix_range> tensors_;
};

/// Each coordinate's mean over those who sent it, weighted; 0 where nobody did. Over all, if `all` is their weight.
doubles contributors_mean(const std::vector<read_message>& messages, const std::vector<double>& weights, double all = 0) {
  doubles mean(messages.front().values.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sent = 0;
    for (std::size_t p = 0; p < messages.size(); ++p) {
      mean[i] += weights[p] * double{messages[p].values[i]};
      sent += messages[p].counts[i] > 0 ? weights[p] : 0;
    }
    mean[i] /= all > 0 ? all : std::max(sent, 1e-30);
  }
  return mean;
}

/// SparseLoCo's exchange: everybody's largest changes in 2 bits, each with an error of its own.
struct sparse_by_hand {
  bool over_all = false, clips = false;
  reader<presets::detail::sparse_loco_codec> wire{
      presets::detail::sparse_loco_codec{compress::no_transform{}, compress::top_k{{.k = 8}}}};
  std::vector<doubles> errors{};

  doubles operator()(const doubles& shared, const std::vector<exchanged>& present) {
    errors.resize(std::max(errors.size(), present.size()), doubles(shared.size()));
    std::vector<read_message> messages;
    std::vector<double> weights;
    double all = 0;
    for (std::size_t peer = 0; peer < present.size(); ++peer) {
      doubles& error = errors[peer];
      for (std::size_t i = 0; i < error.size(); ++i) error[i] = 0.95 * error[i] + shared[i] - present[peer].put_in[i];
      messages.push_back(wire.send(std::vector<float>(error.begin(), error.end())));
      for (std::size_t i = 0; i < error.size(); ++i) error[i] -= double{messages.back().values[i]};
      weights.push_back(present[peer].samples);
      all += weights.back();
    }
    if (clips) clip(messages);
    const doubles mean = contributors_mean(messages, weights, over_all ? all : 0);
    doubles next = shared;
    for (std::size_t i = 0; i < next.size(); ++i) next[i] -= mean[i];
    return next;
  }

 private:
  void clip(std::vector<read_message>& messages) const {
    for (const auto& t : wire.tensors()) {
      std::vector<double> norms;
      for (const read_message& m : messages) {
        double squares = 0;
        for (std::size_t i = t.offset; i < t.offset + t.rows * t.columns; ++i)
          squares += double{m.values[i]} * double{m.values[i]};
        norms.push_back(std::sqrt(squares));
      }
      std::vector<double> sorted = norms;
      std::sort(sorted.begin(), sorted.end());
      const double median = sorted[(sorted.size() - 1) / 2];
      for (std::size_t p = 0; p < messages.size(); ++p) {
        if (norms[p] <= median) continue;
        for (std::size_t i = t.offset; i < t.offset + t.rows * t.columns; ++i) {
          messages[p].values[i] *= static_cast<float>(median / norms[p]);
        }
      }
    }
  }
};

/// DLion's exchange: everybody's larger changes, by samples, the rest kept for later.
struct dlion_by_hand {
  reader<presets::detail::dlion_codec> wire{presets::detail::dlion_codec{compress::no_transform{}, compress::threshold{}}};
  std::vector<doubles> errors{};
  std::vector<double> batches{};  ///< of the first peer, in each exchange

  doubles operator()(const doubles& shared, const std::vector<exchanged>& present) {
    errors.resize(std::max(errors.size(), present.size()), doubles(shared.size()));
    double all = 0;
    for (const exchanged& e : present) all += e.samples;
    batches.push_back(present.front().samples / present.front().steps);
    doubles next = shared;
    for (std::size_t peer = 0; peer < present.size(); ++peer) {
      doubles& error = errors[peer];
      for (std::size_t i = 0; i < error.size(); ++i) error[i] += shared[i] - present[peer].put_in[i];
      const std::vector<float> sent = wire.send(std::vector<float>(error.begin(), error.end())).values;
      for (std::size_t i = 0; i < error.size(); ++i) {
        error[i] -= double{sent[i]};
        next[i] -= present[peer].samples / all * double{sent[i]};
      }
    }
    return next;
  }
};

/// Steps of a peer from the same parameters: their samples are of one exchange of gradients.
std::vector<logged_step> by_exchange(const std::vector<logged_step>& steps) {
  std::vector<logged_step> all;
  for (const logged_step& s : steps) {
    if (all.empty() || support::distance(all.back().before, s.before) > 0) {
      all.push_back(s);
    } else {
      all.back().tokens.insert(all.back().tokens.end(), s.tokens.begin(), s.tokens.end());
    }
  }
  return all;
}

/// All move alike, along the mean gradient of all samples of those who are there.
template <class M, class MakePolicy>
void check_gradients(MakePolicy policy, double within, std::uint64_t steps_per_round = 3) {
  const support::peer_logs logs = support::logs_of_three<M>(policy, 4, steps_per_round);
  std::vector<std::vector<logged_step>> of;
  for (const auto& [host, steps] : logs) of.push_back(by_exchange(steps));
  const std::size_t before = of[2].size() - 1, all = std::min(of[0].size(), of[1].size()) - 1;  // it died in its last one
  REQUIRE(before >= 2);
  REQUIRE(all > before + 2);
  for (std::size_t k = 0; k < all; ++k) {
    INFO("exchange " << k);
    logged_step together = of[0][k];
    for (std::size_t host = 1; host < (k < before ? 3U : 2U); ++host) {
      CHECK(of[host][k].before == together.before);
      together.tokens.insert(together.tokens.end(), of[host][k].tokens.begin(), of[host][k].tokens.end());
    }
    const doubles next = support::stepped<M>(together);
    CHECK(support::distance(of[0][k + 1].before, next) < within * support::distance(together.before, next));
  }
}

/// The mean gradient of a step, as long as it is.
doubles whole_gradient(const logged_step& step) {
  doubles gradient(step.before.size());
  for (const std::int32_t t : step.tokens) {
    for (const std::size_t i : support::all_places<blocky>()) {
      gradient[i] += (step.before[i] - double{support::quadratic::centre(t, static_cast<std::int64_t>(i))}) /
                     static_cast<double>(step.tokens.size());
    }
  }
  return gradient;
}

}  // namespace

TEST_CASE("absence: of a lost peer SparseLoCo's mean has nothing, of contributors, of all, and of what is clipped",
          "[presets][fast]") {
  for (const auto& [over_all, clips] : {std::pair{false, false}, {true, false}, {false, true}}) {
    const auto policy = [over_all = over_all, clips = clips] {
      return make(presets::sparse_loco_options{.local_steps = 3, .k = 8, .over_all = over_all, .clips = clips});
    };
    support::check_exchanges<blocky>(policy, sparse_by_hand{.over_all = over_all, .clips = clips}, 1e-3);
  }
}

TEST_CASE("absence: of a lost peer DLion's mean has nothing, and its part of the batch is the others'", "[presets][fast]") {
  const auto policy = [] { return make(presets::dlion_options{.local_steps = 2, .sequences = 12}); };
  dlion_by_hand exchange;
  support::check_exchanges<blocky>(policy, std::ref(exchange), 1e-3, 10);
  CHECK(exchange.batches.front() == 4);
  CHECK(exchange.batches.back() == 6);
}

TEST_CASE("absence: of a lost peer no mean gradient has anything: in every step, along trees, as factors, gathered",
          "[presets][fast]") {
  check_gradients<blocky>([] { return comm::every_step<>{}; }, 1e-3);
  check_gradients<blocky>([] { return make(presets::netstorm_options{}); }, 1e-3);
  // Of full rank, so that factors lose nothing.
  check_gradients<blocky>([] { return make(presets::power_sgd_options{.rank = 8}); }, 1e-2);
  check_gradients<blocky>([] { return make(presets::dedloc_options{.batch = 12}); }, 1e-3);
}

TEST_CASE("absence: of a lost peer SPARTA's few values have nothing, and the rest is each peer's own", "[presets][fast]") {
  const support::peer_logs logs =
      support::logs_of_three<blocky>([] { return make(presets::sparta_options{.share = 0.1}); }, 4, 1);
  const std::size_t lost_in = logs.at(2).size(), all = std::min(logs.at(0).size(), logs.at(1).size()) - 1;
  REQUIRE(all > lost_in + 2);
  const auto places = support::all_places<blocky>();
  for (std::size_t s = 0; s < all; ++s) {
    INFO("step " << s);
    const std::uint32_t present = s + 1 < lost_in ? 3 : 2;
    std::vector<doubles> own;
    for (std::uint32_t peer = 0; peer < present; ++peer) own.push_back(support::stepped<blocky>(logs.at(peer)[s]));
    std::size_t averaged = 0;
    for (const std::size_t i : places) {
      double mean = 0;
      for (const doubles& x : own) mean += x[i] / present;
      const bool shared = logs.at(0)[s + 1].before[i] == logs.at(1)[s + 1].before[i];
      averaged += shared ? 1U : 0U;
      for (std::uint32_t peer = 0; peer < 2; ++peer) {
        CHECK(std::abs(logs.at(peer)[s + 1].before[i] - (shared ? mean : own[peer][i])) < 1e-5);
      }
    }
    CHECK(averaged >= places.size() / 20);
    CHECK(averaged < places.size() / 2);
  }
}

TEST_CASE("absence: of a lost peer DeMo's coefficients are in no mean, and momenta are as they were", "[presets][fast]") {
  using codec = compress::sparse<compress::dct_tiles, compress::top_k, compress::none>;
  const auto policy = [] { return make(presets::demo_options{.k = 4, .momentum = 0.9F}); };
  const support::peer_logs logs = support::logs_of_three<blocky>(policy, 4, 1);
  const std::size_t lost_in = logs.at(2).size(), all = std::min(logs.at(0).size(), logs.at(1).size()) - 1;
  REQUIRE(all > lost_in + 2);
  reader<codec> wire{codec{compress::dct_tiles{}, compress::top_k{{.k = 4}}}};
  const std::size_t size = logs.at(0)[0].before.size();
  std::vector<doubles> momenta(3, doubles(size));
  for (std::size_t s = 0; s < all; ++s) {
    INFO("step " << s);
    std::vector<read_message> messages;
    for (std::uint32_t peer = 0; peer < (s + 1 < lost_in ? 3U : 2U); ++peer) {
      CHECK(logs.at(peer)[s].before == logs.at(0)[s].before);
      const doubles gradient = whole_gradient(logs.at(peer)[s]);
      doubles& m = momenta[peer];
      for (std::size_t i = 0; i < size; ++i) m[i] = 0.9 * m[i] + 0.05 * gradient[i];
      messages.push_back(wire.send(std::vector<float>(m.begin(), m.end())));
      std::vector<float> sent = messages.back().values;
      wire.invert(sent);
      for (std::size_t i = 0; i < size; ++i) m[i] -= double{sent[i]};
    }
    const doubles mean = contributors_mean(messages, std::vector<double>(messages.size(), 1));
    std::vector<float> row(mean.begin(), mean.end());
    wire.invert(row);
    doubles signs;
    for (const float x : row) signs.push_back(x > 0 ? 1 : x < 0 ? -1 : 0);
    const double longer = std::max(1.0, support::length(signs));
    doubles next = logs.at(0)[s].before;
    for (std::size_t i = 0; i < size; ++i) next[i] -= 0.05 * signs[i] / longer;
    CHECK(support::distance(logs.at(0)[s + 1].before, next) < 1e-4);
  }
}
