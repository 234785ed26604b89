// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGES_HPP

// What the peers of a swarm say to each other, and its bytes: format, run, kind, fields. docs/design/swarm.md says when.
// Boundary tensors are no messages of this kind: they travel as data, each announced by a `tensor_announcement`. Those
// about a tied table are in swarm_table_exchange.hpp.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/envelope.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_table_exchange.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace swarm_wire {

inline constexpr std::uint32_t most_stages = 1024;
inline constexpr std::uint32_t most_micro_batches = 1U << 20U;
inline constexpr std::size_t most_addresses = 1024;
inline constexpr std::size_t longest_address = 256;
inline constexpr std::uint32_t most_asked = 1U << 16U;  // numbers, by a policy, in one exchange
inline constexpr std::uint32_t no_module_path = UINT32_MAX;

/// What a swarm does one after the other: the evaluations before a step, in their order, where peers take local steps the
/// local step, and what ends with the stages' exchange. A turn is what messages and tensors belong to.
inline constexpr unsigned turn_bits = 20;
inline constexpr std::uint64_t most_evaluations = (std::uint64_t{1} << turn_bits) - 2;  // of a step
[[nodiscard]] constexpr std::uint64_t evaluation_turn(std::uint64_t step, std::uint64_t count) noexcept {
  return step << turn_bits | count;
}
[[nodiscard]] constexpr std::uint64_t local_turn(std::uint64_t step) noexcept {
  return evaluation_turn(step, most_evaluations);
}
[[nodiscard]] constexpr std::uint64_t training_turn(std::uint64_t step) noexcept { return local_turn(step) + 1; }
[[nodiscard]] constexpr std::uint64_t step_of(std::uint64_t turn) noexcept { return turn >> turn_bits; }
/// Of its tensors: when its step is over, what is still under way is cancelled.
[[nodiscard]] constexpr std::uint32_t epoch_of(std::uint64_t turn) noexcept {
  return static_cast<std::uint32_t>(step_of(turn)) + 1;
}
[[nodiscard]] constexpr bool trains(std::uint64_t turn) noexcept { return turn >= local_turn(step_of(turn)); }
[[nodiscard]] constexpr bool is_local(std::uint64_t turn) noexcept { return turn == local_turn(step_of(turn)); }

/// The path through a model of modules that a micro-batch of a turn is of: each `batch` of them has an equal part for each
/// path, in their order. Less than a batch is divided likewise.
[[nodiscard]] constexpr std::uint32_t module_path_of(std::uint32_t micro_batch, std::uint32_t size, std::uint32_t batch,
                                                     std::uint32_t paths) noexcept {
  const std::uint64_t one = size < batch ? size : batch;
  return static_cast<std::uint32_t>(micro_batch % one * paths / one);
}

/// A set of micro-batches of a turn.
class batch_set {
 public:
  batch_set() = default;
  CAUSEWAY_DECL explicit batch_set(std::uint32_t size);

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] bool has(std::uint32_t m) const noexcept { return m < size_ && (words_[m / 64U] >> (m % 64U) & 1U) != 0; }
  CAUSEWAY_DECL void add(std::uint32_t m);
  CAUSEWAY_DECL void remove(std::uint32_t m);
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t count() const noexcept;
  /// Precondition: of equal size.
  CAUSEWAY_DECL [[nodiscard]] bool meets(const batch_set& other) const noexcept;
  CAUSEWAY_DECL void unite(const batch_set& other) noexcept;
  friend bool operator==(const batch_set&, const batch_set&) = default;

  CAUSEWAY_DECL void put(net::byte_writer& out) const;
  /// Allocates no more than the input backs; bits beyond the size are refused.
  CAUSEWAY_DECL void get(net::byte_reader& in);

 private:
  std::uint32_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

/// What a stage's sum of a step came to: no stage moves its weights before every stage has its sum.
struct stage_sum {
  std::uint64_t step = 0;
  double squares = -1;          ///< of the sum's 2-norm; negative: there is none
  std::vector<double> asked{};  ///< this stage's part of what a policy asks all stages for (swarm_round::sum)

  void fields(auto& wire) { wire(step, squares, net::list{asked, most_asked}); }
};

/// Its squares, and the first `count` of what was asked for.
CAUSEWAY_DECL [[nodiscard]] std::vector<double> numbers_of(const stage_sum& sum, std::size_t count);

/// Where a peer stands. To everybody: when it changes, and with every heartbeat.
struct status {
  std::uint32_t stage = 0;
  std::uint8_t serving = 0;      ///< has the weights of its stage
  std::uint64_t turn = 0;        ///< that it works on
  std::uint32_t term = 0;        ///< of the coordinator that it follows
  std::uint8_t coordinates = 0;  ///< it is that coordinator itself
  double queued = 0;             ///< micro-batches that wait here, on average: queue_meter
  double seconds = 0;            ///< that one takes here; 0: not known
  stage_sum sums[2];             ///< of its stage, for the newest two steps that have one
  /// Of a tied table, on the last stage: the turn for whose sum it has the first stage's part. 0: none.
  std::uint64_t part = 0;
  /// Steps in the committed state that it holds: at the ends of a model with a tied table, and where peers take local
  /// steps, since it was started.
  std::uint64_t committed = 0;
  stage_sum decided{};  ///< of all stages together, as its committed state has it: the newest that a policy asked for
  /// Of a model of modules: the path that it was on last, and whether it is in this round; else it takes any.
  std::uint32_t module_path = no_module_path;
  std::uint8_t on_path = 0;
  std::uint32_t paths = 0;  ///< that there are; equal on all peers

  void fields(auto& wire) {
    wire(net::below{stage, most_stages}, net::below{serving, 2}, turn, term, net::below{coordinates, 2}, queued, seconds,
         sums[0], sums[1], part, committed, decided, module_path, net::below{on_path, 2}, paths);
  }
};

/// From a peer that becomes the coordinator.
struct claim {
  std::uint32_t term = 0;

  void fields(auto& wire) { wire(term); }
};

/// The answer, also unasked when something was dropped: what of a turn is in this peer's hands.
struct report {
  std::uint32_t term = 0;
  std::uint64_t turn = 0;
  batch_set done;                ///< in its gradient; in an evaluation: computed
  batch_set begun;               ///< computed forward, not back
  std::vector<double> losses{};  ///< on the last stage: of the micro-batches in `done`, ascending

  void fields(auto& wire) {
    wire(term, turn, done, begun);
    wire(net::list{losses, done.count()});
    wire.must(done.size() == begun.size() && (losses.empty() || losses.size() == done.count()));
  }
};

/// What the neighbours have to do for a stage of a micro-batch's path.
enum class stage_need : std::uint8_t {
  usual,     ///< send what it has not been sent
  finished,  ///< it has contributed: nothing
  again,     ///< another peer stands in there: send what is kept, even if it was sent before
};

/// The coordinator's word on one micro-batch: to every peer of its path, again with a higher version when the path changes.
struct order {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  std::uint64_t version = 0;         ///< term · 2^32 + count
  std::vector<net::peer_id> path{};  ///< by stage; 0: left out
  std::vector<stage_need> needs{};   ///< by stage
  /// By stage: the version with which it last began the micro-batch anew. Never falls from one stage to the next. 0: peers
  /// of a stage compute alike, and none ever has to.
  std::vector<std::uint64_t> passes{};

  void fields(auto& wire) { wire(turn, net::below{micro_batch, most_micro_batches}, version, path_field{*this}); }

 private:
  struct path_field {
    order& m;

    CAUSEWAY_DECL void put(net::byte_writer& out) const;
    CAUSEWAY_DECL void get(net::byte_reader& in) const;
  };
};

/// A boundary tensor follows as data, under this name.
struct tensor_announcement {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  std::uint8_t backward = 0;
  std::uint64_t serial = 0;  ///< names the data among those of its sender
  std::uint64_t pass = 0;    ///< of the upper of the two stages

  void fields(auto& wire) {
    wire(turn, net::below{micro_batch, most_micro_batches}, net::below{backward, 2}, serial, pass);
  }
  [[nodiscard]] net::message_id data() const {
    return {.channel = collective::channels::activations, .epoch = epoch_of(turn), .step = serial};
  }
};

/// A micro-batch is in this peer's gradient, or in an evaluation computed. To the coordinator.
struct contributed {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  double seconds = 0;  ///< 0: not of a training step
  double loss = 0;     ///< summed over tokens, on the last stage

  void fields(auto& wire) { wire(turn, net::below{micro_batch, most_micro_batches}, seconds, loss); }
};

/// Whether the coordinator knows every micro-batch of the step in the gradient of a living peer of every stage that it
/// passes; of an evaluation, every micro-batch's loss.
struct verdict {
  std::uint64_t turn = 0;
  std::uint8_t complete = 0;
  double loss = 0;       ///< of the whole turn, summed over tokens
  batch_set left_out{};  ///< micro-batches of paths that rest: what is missing of them stays missing

  void fields(auto& wire) { wire(turn, net::below{complete, 2}, loss, left_out); }
};

/// Where to find others.
struct addresses {
  std::vector<std::string> list{};

  void fields(auto& wire) {
    wire(net::list{list, most_addresses, [](auto& w, std::string& a) { w(net::text{a, longest_address}); }});
  }
};

/// The coordinator asks a peer to serve another stage.
struct move_request {
  std::uint32_t term = 0;
  std::uint32_t stage = 0;

  void fields(auto& wire) { wire(term, net::below{stage, most_stages}); }
};

/// What came from a peer for a micro-batch cannot be decoded. To the coordinator.
struct refusal {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  net::peer_id from = 0;

  void fields(auto& wire) { wire(turn, net::below{micro_batch, most_micro_batches}, from); }
};

/// To be sent back at once, so that its sender learns how far away the other is.
struct probe {
  std::uint64_t mark = 0;

  void fields(auto& wire) { wire(mark); }
};
struct echo {
  std::uint64_t mark = 0;

  void fields(auto& wire) { wire(mark); }
};

/// What that came to, for all peers within reach. To the coordinator.
struct delays {
  struct one {
    net::peer_id to = 0;
    double seconds = 0;  ///< half a round trip

    void fields(auto& wire) {
      wire(to, seconds);
      wire.must(seconds >= 0);
    }
  };
  std::vector<one> list{};

  void fields(auto& wire) { wire(net::list{list, most_addresses}); }
};

/// The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<status, claim, report, order, tensor_announcement, contributed, verdict, addresses,
                             move_request, refusal, probe, echo, delays, table_request, table_piece>;

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(std::uint64_t run, const message& m);

/// As net::envelope::open.
CAUSEWAY_DECL [[nodiscard]] result<message> decode(std::uint64_t run, std::span<const std::byte> bytes);

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::swarm_wire

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_messages.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGES_HPP
