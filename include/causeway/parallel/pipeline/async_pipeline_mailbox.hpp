// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_MAILBOX_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_MAILBOX_HPP

// Boundary tensors of an endless stream of micro-batches, on their way to and from the neighbouring stages. Unlike
// pipeline_mailbox it outlives the trainer's steps: what is sent and what is expected stays under way between them. What
// failed can be asked for again: nothing that arrived is forgotten before it was decoded, nothing that was sent before it
// is gone. Where it keeps what it sent until that was taken, all of it can also be begun again over other links.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/stage/activation.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What all micro-batches of a stream have in common.
struct stream_shape {
  std::int64_t sequences = 0;
  std::int64_t rows = 0;  ///< tokens
  std::int64_t width = 0;
  friend bool operator==(const stream_shape&, const stream_shape&) = default;
};

/// Names a micro-batch: its number in the stream, and the step and place in it that it belongs to.
struct stream_place {
  std::uint64_t number = 0;
  std::uint64_t step = 0;
  std::uint32_t piece = 0;
};

/// Where a rank's tensors go.
struct stream_line {
  stage::direction way = stage::direction::forward;
  std::uint32_t edge = 0;
  std::uint32_t other = 0;  ///< the rank at the other end
};

/// The mailbox of one rank. One thread. `view` must refer to a transport that outlives it.
template <class Codec>
class async_pipeline_mailbox {
 public:
  struct options {
    std::uint32_t channel = 0;  ///< two consecutive ones: forward, backward
    std::uint64_t seed = 0;     ///< equal on both sides of a boundary
    stream_shape shape;
    std::size_t late = 1;  ///< messages that the other side may not need any more: it may have left
    bool keeps = false;    ///< what was sent, until `forget`
    time_point deadline = no_deadline;
  };

  async_pipeline_mailbox(collective::group_view view, const options& o) : view_{std::move(view)}, options_{o} {}
  async_pipeline_mailbox(const async_pipeline_mailbox&) = delete;
  async_pipeline_mailbox& operator=(const async_pipeline_mailbox&) = delete;

  /// How long the waits that begin from now on may take.
  void deadline(time_point at) noexcept { options_.deadline = at; }

  /// Starts to receive a micro-batch. Those of one way are expected, and taken, in the order of the stream.
  void expect(Codec& codec, const stream_line& l, const stream_place& m) {
    transfer p{.at = m, .peer = l.other, .bytes = buffer(head_bytes + codec.most_bytes(crossing_of(l, m, {})))};
    p.id = id_of(l, m);
    expected_[index(l.way)].push_back(std::move(p));
    post(expected_[index(l.way)].back());
  }
  [[nodiscard]] std::size_t expected(stage::direction way) const { return expected_[index(way)].size(); }

  /// Waits for what was expected first, and decodes it into `values`. Gives the number that came with it.
  result<double> take(Codec& codec, thread_pool& pool, const stream_line& l, std::span<const std::uint64_t> samples,
                      std::span<float> values) {
    auto& line = expected_[index(l.way)];
    CAUSEWAY_EXPECT(!line.empty());
    transfer& p = line.front();
    CAUSEWAY_TRY(arrive(p));
    double loss = 0;
    auto outcome = decode(codec, pool, l, p, samples, values, loss);
    if (outcome && !stage::all_finite(pool, values)) outcome = not_finite("", p.at, "it sent");
    if (!outcome) {
      std::string& where = outcome.error().where;
      where = "rank " + std::to_string(l.other) + (where.empty() ? "" : ", " + where);
      return std::move(outcome).error();
    }
    spare_.push_back(std::move(p.bytes));
    line.pop_front();
    ++taken_[index(l.way)];
    return loss;
  }
  /// How many of one way were taken: those before, in the order of the stream.
  [[nodiscard]] std::uint64_t taken(stage::direction way) const noexcept { return taken_[index(way)]; }

  /// Encodes and starts to send; `with` goes along: the loss with a backward, any finite number with a forward.
  /// errc::non_finite where `values` are not: what this rank took was, so they were spoilt here.
  result<void> send(Codec& codec, thread_pool& pool, const stream_line& l, const stream_place& m,
                    std::span<const std::uint64_t> samples, std::span<const float> values, double with) {
    if (!stage::all_finite(pool, values)) return not_finite("this stage", m, "it came to");
    const auto c = crossing_of(l, m, samples);
    transfer p{.at = m, .peer = l.other, .bytes = buffer(head_bytes + codec.most_bytes(c))};
    std::memcpy(p.bytes.data(), &with, head_bytes);
    CAUSEWAY_ASSIGN(p.moved, codec.encode(pool, c, values, std::span{p.bytes}.subspan(head_bytes)));
    p.moved += head_bytes;
    p.id = id_of(l, m);
    sent_[index(l.way)].push_back(std::move(p));
    post_send(sent_[index(l.way)].back());
    return {};
  }

  /// An error if something sent this way, but for the last `late` messages, is known not to have left. To be asked after
  /// each `send`: a neighbour may be waiting for it, and this rank for that neighbour.
  result<void> look_back(stage::direction way) { return reap(way, options_.late, false); }

  /// Waits until all that was sent this way is gone, but for the last `leave` messages: what became of those is not asked.
  result<void> flush(stage::direction way, std::size_t leave) { return reap(way, leave, true); }

  /// The other side has taken what was sent this way of micro-batches before `number`.
  void forget(stage::direction way, std::uint64_t number) {
    auto& line = sent_[index(way)];
    while (gone_[index(way)] > 0 && line.front().at.number < number) drop_sent(way);
  }

  /// Everything is under way again, over `view`, to and from the same ranks, of whom the rank behind has `taken` so many
  /// forwards and the rank before so many gradients. Needs options::keeps.
  void go_on(collective::group_view view, const std::array<std::uint64_t, 2>& taken) {
    for (auto* lines : {&expected_, &sent_}) {
      for (auto& line : *lines) {
        for (transfer& p : line) p.op.cancel();
      }
    }
    view_ = std::move(view);
    gone_ = {};
    for (const stage::direction way : {stage::direction::forward, stage::direction::backward}) {
      while (!sent_[index(way)].empty() && sent_[index(way)].front().at.number < taken[index(way)]) drop_sent(way);
      for (transfer& p : sent_[index(way)]) post_send(p);
      for (transfer& p : expected_[index(way)]) {
        p.failed.reset();
        p.here = false;
        post(p);
      }
    }
  }

 private:
  // A number, before what the codec made: the loss of the micro-batch with its backward.
  static constexpr std::size_t head_bytes = sizeof(double);

  struct transfer {
    stream_place at;
    std::uint32_t peer = 0;
    std::vector<std::byte> bytes;
    net::message_id id{};
    net::scoped_operation op{};
    std::size_t moved = 0;
    bool here = false;
    std::optional<error> failed{};  // for good
  };

  static constexpr std::size_t index(stage::direction way) noexcept { return static_cast<std::size_t>(way); }

  [[nodiscard]] stage::crossing crossing_of(const stream_line& l, const stream_place& m,
                                            std::span<const std::uint64_t> samples) const {
    return {.edge = l.edge,
            .way = l.way,
            .rows = options_.shape.rows,
            .width = options_.shape.width,
            .sequences = options_.shape.sequences,
            .samples = samples,
            .seed = mix(options_.seed, m.step, mix(l.edge, static_cast<std::uint64_t>(l.way), m.piece))};
  }

  [[nodiscard]] net::message_id id_of(const stream_line& l, const stream_place& m) const {
    const std::uint32_t channel = options_.channel + static_cast<std::uint32_t>(l.way);
    return {.channel = collective::numbered(channel, l.edge), .step = (m.step << most_micro_batch_bits) | m.piece};
  }

  // What was late may still come; of what failed otherwise nothing will.
  result<void> arrive(transfer& p) {
    if (p.failed) return *p.failed;
    if (p.here) return {};
    if (!p.op.started()) post(p);
    const auto moved = p.op.wait(options_.deadline);
    if (!moved) {
      if (moved.error().code != errc::timeout) p.failed = moved.error();
      return moved.error();
    }
    p.moved = *moved;
    p.here = true;
    return {};
  }

  result<void> decode(Codec& codec, thread_pool& pool, const stream_line& l, const transfer& p,
                      std::span<const std::uint64_t> samples, std::span<float> values, double& loss) {
    const std::span<const std::byte> bytes{p.bytes.data(), p.moved};
    if (bytes.size() < head_bytes) return fail(errc::protocol, "", "it sent a boundary tensor without its head");
    std::memcpy(&loss, bytes.data(), head_bytes);
    if (!std::isfinite(loss)) return fail(errc::non_finite, "", "it sent a loss that is not finite");
    return codec.decode(pool, crossing_of(l, p.at, samples), bytes.subspan(head_bytes), values);
  }

  void post(transfer& p) { p.op = {view_, view_.receive(p.peer, p.id, p.bytes)}; }
  void post_send(transfer& p) {
    p.op = {view_, view_.send(p.peer, p.id, std::span<const std::byte>{p.bytes}.first(p.moved))};
  }

  // A send that failed stays, and is made again when somebody asks next.
  result<void> reap(stage::direction way, std::size_t leave, bool waits) {
    auto& line = sent_[index(way)];
    auto& gone = gone_[index(way)];
    while (line.size() - gone > leave) {
      transfer& p = line[gone];
      if (!p.op.started()) post_send(p);
      if (!waits && !p.op.done()) return {};
      CAUSEWAY_TRY(p.op.wait(options_.deadline));
      ++gone;
      if (!options_.keeps) drop_sent(way);
    }
    return {};
  }
  void drop_sent(stage::direction way) {
    auto& line = sent_[index(way)];
    spare_.push_back(std::move(line.front().bytes));
    line.pop_front();
    if (gone_[index(way)] > 0) --gone_[index(way)];
  }

  [[nodiscard]] static error not_finite(const std::string& whose, const stream_place& m, const std::string& how) {
    return fail(errc::non_finite, whose,
                how + " values that are not finite for micro-batch " + std::to_string(m.piece) + " of step " +
                    std::to_string(m.step));
  }

  [[nodiscard]] std::vector<std::byte> buffer(std::size_t bytes) {
    std::vector<std::byte> b;
    if (!spare_.empty()) {
      b = std::move(spare_.back());
      spare_.pop_back();
    }
    b.resize(bytes);
    return b;
  }

  collective::group_view view_;
  options options_;
  std::array<std::deque<transfer>, 2> expected_;  // by way
  std::array<std::deque<transfer>, 2> sent_;
  std::array<std::size_t, 2> gone_{};     // of those, the first: known to have left
  std::array<std::uint64_t, 2> taken_{};  // of all that was expected
  std::vector<std::vector<std::byte>> spare_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_MAILBOX_HPP
