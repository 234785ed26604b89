// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_GLOBAL_SAMPLES_HPP
#define CAUSEWAY_AXIS_GLOBAL_SAMPLES_HPP

// A trigger by what all peers have done together (DeDLOC, Diskin et al. 2021): they gather gradients, each at its own pace,
// until the samples of all of them reach a target; then everybody averages and steps. The number of peers and their speeds
// never change the optimisation problem. Peers tell each other how far they are after every step and wait for nobody. What
// is here is for a fixed set of peers; where they come and go, the membership adds up (membership::options::round_samples).

#include <causeway/axis/every.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// One exchange for each `target` samples of all peers together, or a few more: a peer finds out between two steps. Cost:
/// 24 bytes to each other peer after every step, and once more for an exchange. Only with gradients. The result depends on
/// when messages arrive: it repeats bit for bit on the simulator only. A peer that ends its training early goes on taking
/// part until all have ended. Of a model in stages the first ones tell each other, and the other stages: 16 bytes each.
class global_samples {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;
  static constexpr bool accumulates = true;

  CAUSEWAY_DECL explicit global_samples(std::uint64_t target = 4096);
  /// At the same round, and without the other's conversations: for a peer that has one for each of its ranges of blocks.
  global_samples(const global_samples& other) : target_{other.target_}, round_{other.round_} {}
  global_samples(global_samples&&) noexcept = default;
  global_samples& operator=(global_samples&&) noexcept = default;

  [[nodiscard]] std::uint64_t target() const noexcept { return target_; }

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] static std::uint32_t first(std::size_t, std::size_t) noexcept { return 1; }
  [[nodiscard]] static std::uint32_t next(std::size_t, std::size_t) noexcept { return 1; }
  result<void> exchanged(auto&, const exchange_report&) {
    ++round_;
    return {};
  }

  /// Begins to listen. Call once, before the first step.
  void open(auto& ctx) {
    ears_.clear();
    sent_.clear();
    said_ = 0;
    for (net::peer_index p = 0; p < ctx.peers(); ++p) {
      ears_.push_back({});
      if (p != ctx.self()) listen(ctx, p);
    }
  }

  /// Tells the others that this peer has `own` samples of the round, and hears what they have to say. Whether the target is
  /// reached.
  result<bool> reached(auto& ctx, std::uint64_t own) {
    say(ctx, own, nothing);
    CAUSEWAY_TRY(hear(ctx));
    const bool enough = total(own) >= target_ || others_exchange();
    if (enough) say(ctx, own, exchanges);
    return enough;
  }

  /// When this peer's training has ended: waits for news. True: the target is reached, exchange and call again; false: all
  /// peers have ended, with fewer samples than the target between them.
  result<bool> reached_by_others(auto& ctx, std::uint64_t own) {
    say(ctx, own, ended);
    CAUSEWAY_TRY(hear(ctx));
    while (total(own) < target_ && !others_exchange()) {
      const auto busy = std::find_if(ears_.begin(), ears_.end(), [](const ear& e) { return e.listening && !e.ended; });
      if (busy == ears_.end()) {
        for (mouth& m : sent_) (void)m.op.wait(no_deadline);  // the last news must not go with this object
        sent_.clear();
        return false;
      }
      CAUSEWAY_TRY(take(ctx, static_cast<net::peer_index>(busy - ears_.begin())));
      CAUSEWAY_TRY(hear(ctx));
    }
    return true;
  }

  /// Samples of all peers in this round, as far as they have said.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t total(std::uint64_t own) const;

  void serialize(auto& ar) { ar(round_); }

 private:
  using news = std::array<std::uint64_t, 3>;  ///< round, samples in it, and one of these
  // Whoever begins an exchange says so: it is silent until that is over, and who waits for its news would not see that
  // another's have come.
  enum state : std::uint64_t { nothing, ended, exchanges };

  struct ear {
    bool listening = false;
    bool ended = false;
    bool exchanges = false;   ///< in `round`
    std::uint64_t heard = 0;  ///< messages
    std::uint64_t round = 0;
    std::uint64_t samples = 0;
    std::list<news> room{news{}};  ///< a list: it stays where it is
    net::scoped_operation op{};    ///< below `room`, so that it goes first
  };
  struct mouth {
    std::list<news> words{};
    net::scoped_operation op{};
  };

  static net::message_id id(std::uint64_t number) { return {.channel = collective::channels::metrics + 1, .step = number}; }

  void listen(auto& ctx, net::peer_index p) {
    ear& e = ears_[p];
    e.listening = true;
    e.op = {ctx.transport(), ctx.transport().receive(p, id(e.heard), std::as_writable_bytes(std::span{e.room.front()}))};
  }

  void say(auto& ctx, std::uint64_t own, state what) {
    std::erase_if(sent_, [](const mouth& m) { return m.op.done(); });  // whom it did not reach, receives will tell
    for (net::peer_index p = 0; p < ctx.peers(); ++p) {
      if (p == ctx.self()) continue;
      mouth& m = sent_.emplace_back();
      m.words.push_back({round_, own, what});
      m.op = {ctx.transport(), ctx.transport().send(p, id(said_), std::as_bytes(std::span{m.words.front()}))};
    }
    ++said_;
  }

  [[nodiscard]] bool others_exchange() const {
    return std::any_of(ears_.begin(), ears_.end(), [&](const ear& e) { return e.exchanges && e.round == round_; });
  }

  result<void> hear(auto& ctx) {
    for (net::peer_index p = 0; p < ears_.size(); ++p) {
      while (ears_[p].listening && ears_[p].op.done()) CAUSEWAY_TRY(take(ctx, p));
    }
    return {};
  }

  result<void> take(auto& ctx, net::peer_index p) {
    ear& e = ears_[p];
    e.listening = false;
    const auto moved = e.op.wait(no_deadline);
    if (!moved && e.ended) return {};  // and has left; if it is still needed, the exchange will say so
    if (!moved) return moved.error();
    const auto [round, samples, what] = e.room.front();
    if (*moved != sizeof(news) || what > exchanges || samples > (std::uint64_t{1} << 48U)) {
      return fail(errc::protocol, "peer " + std::to_string(p),
                  "told something else than its samples; do all peers run the same policy?");
    }
    ++e.heard;
    e.round = round;
    e.samples = samples;
    e.ended = what == ended;
    e.exchanges = what == exchanges;
    // Even one that has ended may say more: rounds go on until all have.
    listen(ctx, p);
    return {};
  }

  std::uint64_t target_;
  std::uint64_t round_ = 0;
  std::uint64_t said_ = 0;
  std::vector<ear> ears_;
  std::list<mouth> sent_;
};
static_assert(Trigger<global_samples>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/global_samples.ipp>
#endif

#endif  // CAUSEWAY_AXIS_GLOBAL_SAMPLES_HPP
