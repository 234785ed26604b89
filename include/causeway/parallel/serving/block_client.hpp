// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_CLIENT_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_CLIENT_HPP

// A client's side of frozen blocks that others serve (Petals: Borzunov et al., 2022): who holds what, and sequences on
// their way through them and back, many at once. Whoever does not answer, or answers what no honest server does, is left
// for a time; its blocks are asked of others, and nothing is lost.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/parallel/serving/block_messages.hpp>
#include <causeway/parallel/serving/block_passage.hpp>
#include <causeway/parallel/serving/block_rpc_codec.hpp>
#include <causeway/parallel/serving/block_server_directory.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/block_routing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What a client knows of the model that others serve.
struct span_model {
  std::uint64_t agreement = 0;  ///< stage::family_agreement of the options
  std::int64_t layers = 1;
  std::int64_t width = 1;
  nn::map_sizes maps{};
};

/// Rows of `sequences` of `tokens` each, and what is tuned of every block, [layers, tuning.values].
struct block_batch {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;
  nn::block_tuning tuning{};
  std::span<const float> tuned{};
};

/// One thread calls; events come as the fabric has them.
template <stage::ActivationCodec Codec = stage::plain>
class block_client final : private block_server_directory {
 public:
  block_client(std::shared_ptr<net::fabric> fabric, block_client_options options, const span_model& model,
               Codec codec = Codec{}, log_sink log = {})
      : block_server_directory{std::move(fabric), span_run(options.run, model.agreement, codec), model.layers,
                               std::move(options), std::move(log)},
        model_{model},
        codec_{std::move(codec), model.width, model.maps},
        mailbox_{*fabric_} {
    listen();
  }
  ~block_client() override { fabric_->attach(nullptr); }

  /// A batch between its forward and its backward: what went into each hop.
  struct pass {
    block_batch batch{};
    std::vector<std::int64_t> first;  ///< sequence of each piece
    std::vector<block_passage> pieces;
  };

  /// y = all blocks of x, [sequences·tokens, width]. errc::timeout where a block is served by nobody for `give_up`;
  /// errc::non_finite where rows are not, or become so.
  result<pass> forward(thread_pool& pool, const block_batch& batch, std::span<const float> x, std::span<float> y) {
    CAUSEWAY_EXPECT(std::ssize(x) == batch.sequences * batch.tokens * model_.width && y.size() == x.size());
    if (!stage::all_finite(pool, batch.tuned)) {
      return fail(errc::non_finite, "block_client",
                  "prompts or adapters are not finite: the learning rate may be too high");
    }
    pass p{batch, {}, {}};
    const std::int64_t each = std::max<std::int64_t>(1, options_.most_rows / batch.tokens);
    for (std::int64_t s = 0; s < batch.sequences; s += each) {
      p.first.push_back(s);
      const auto rows = part_of(p, p.first.size() - 1, x);
      CAUSEWAY_ASSIGN(auto bytes, encoded(pool, p, p.first.size() - 1, stage::direction::forward, rows));
      p.pieces.emplace_back(directory_.layers(), std::move(bytes));
    }
    CAUSEWAY_TRY(travel(pool, p, {}));
    CAUSEWAY_TRY(decode_all(pool, p, stage::direction::forward, y));
    return p;
  }

  /// dx from dy; adds to d_tuned the gradient of the batch's `tuned`, which must still be there.
  result<void> backward(thread_pool& pool, pass& p, std::span<const float> dy, std::span<float> dx,
                        std::span<float> d_tuned) {
    CAUSEWAY_EXPECT(d_tuned.size() == p.batch.tuned.size() && dx.size() == dy.size());
    for (std::size_t i = 0; i < p.pieces.size(); ++i) {
      CAUSEWAY_ASSIGN(auto bytes, encoded(pool, p, i, stage::direction::backward, part_of(p, i, dy)));
      p.pieces[i].turn_back(std::move(bytes));
    }
    std::vector<std::vector<float>> of_piece(p.pieces.size(), std::vector<float>(d_tuned.size()));
    CAUSEWAY_TRY(travel(pool, p, of_piece));
    CAUSEWAY_TRY(decode_all(pool, p, stage::direction::backward, dx));
    for (const auto& piece : of_piece) {
      for (std::size_t i = 0; i < d_tuned.size(); ++i) d_tuned[i] += piece[i];
    }
    return {};
  }

  using block_server_directory::directory, block_server_directory::wait_for_blocks;
  /// Requests that had to be made again because a server was lost, refused or did not answer.
  [[nodiscard]] std::uint64_t lost_requests() const noexcept { return lost_; }

 private:
  /// A request under way.
  struct under_way {
    std::size_t piece = 0;
    net::peer_index link = 0;
    net::peer_id server = 0;
    block_wire::request what{};
    time_point since{};
  };

  // ---- pieces of a batch

  [[nodiscard]] std::int64_t sequences_of(const pass& p, std::size_t piece) const {
    const std::int64_t end = piece + 1 < p.first.size() ? p.first[piece + 1] : p.batch.sequences;
    return std::min(end - p.first[piece], std::max<std::int64_t>(1, options_.most_rows / p.batch.tokens));
  }
  template <class T>
  [[nodiscard]] std::span<T> part_of(const pass& p, std::size_t piece, std::span<T> all) const {
    const std::int64_t each = p.batch.tokens * model_.width;
    return all.subspan(static_cast<std::size_t>(p.first[piece] * each),
                       static_cast<std::size_t>(sequences_of(p, piece) * each));
  }
  [[nodiscard]] block_wire::request request_of(const pass& p, std::size_t piece) const {
    block_wire::request r;
    r.sequences = static_cast<std::uint32_t>(sequences_of(p, piece));
    r.tokens = static_cast<std::uint32_t>(p.batch.tokens);
    r.prompts = static_cast<std::uint32_t>(p.batch.tuning.prompts);
    r.adapters = p.batch.tuning.adapters;
    return r;
  }

  result<shared_bytes> encoded(thread_pool& pool, const pass& p, std::size_t piece, stage::direction way,
                               std::span<const float> values) {
    if (!stage::all_finite(pool, values)) {
      return fail(errc::non_finite, "block_client",
                  "rows for the servers are not finite: the learning rate may be too high");
    }
    CAUSEWAY_ASSIGN(auto bytes, codec_.encode_rows(pool, request_of(p, piece), way, values));
    return shared_bytes{std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  }
  result<void> decode_all(thread_pool& pool, const pass& p, stage::direction way, std::span<float> out) {
    for (std::size_t i = 0; i < p.pieces.size(); ++i) {
      CAUSEWAY_ASSIGN(const auto values, codec_.decode_rows(pool, request_of(p, i), way, *p.pieces[i].outcome()));
      const auto to = part_of(p, i, out);
      std::copy(values.begin(), values.end(), to.begin());
    }
    return {};
  }

  // ---- the way

  /// Until all pieces have arrived. `d_tuned`: of each piece, on the way back.
  result<void> travel(thread_pool& pool, pass& p, std::span<std::vector<float>> d_tuned) {
    const auto outcome = travel_on(pool, p, d_tuned);
    if (outcome) return outcome;
    mailbox_.clear();
    fabric_->locked([this] {
      for (const auto& [number, u] : requests_) directory_.dropped(u.server, u.what.work());
      requests_.clear();
    });
    return outcome;
  }

  result<void> travel_on(thread_pool& pool, pass& p, std::span<std::vector<float>> d_tuned) {
    waits_since_.reset();
    not_finite_ = 0;
    fabric_->locked([this] { down_.clear(); });
    for (;;) {
      for (auto& a : mailbox_.collect()) take(pool, p, d_tuned, a);
      if (not_finite_ >= 3) {
        return fail(errc::non_finite, "block_client",
                    "servers said three times that what comes out is not finite: the learning rate may be too high");
      }
      forget_lost(p);
      if (std::all_of(p.pieces.begin(), p.pieces.end(), [](const auto& one) { return one.arrived(); })) return {};
      CAUSEWAY_ASSIGN(const time_point until, ask_all(p));
      CAUSEWAY_TRY(fabric_->block([this] { return news_ || mailbox_.any_done(); }, until));
    }
  }

  /// Asks for every piece that nobody is asked for. Gives the time at which to look again.
  result<time_point> ask_all(pass& p) {
    time_point until = no_deadline;
    fabric_->locked([this] { news_ = false; });  // what comes from now on makes it look again
    for (std::size_t i = 0; i < p.pieces.size(); ++i) {
      if (p.pieces[i].arrived() || busy(i)) continue;
      std::optional<under_way> u;
      block_passage::question q;
      fabric_->locked([&] { u = choose(p, i, q); });
      if (u) send(p, *u, q);
    }
    std::optional<error> failed;
    fabric_->locked([&] {
      const time_point now = fabric_->now();
      until = directory_.next_return(now);
      for (const auto& [number, u] : requests_) until = std::min(until, u.since + options_.patience);
      if (!requests_.empty()) {
        waits_since_.reset();
      } else {
        if (!waits_since_) waits_since_ = now;
        until = std::min(until, *waits_since_ + options_.give_up);
        if (now >= *waits_since_ + options_.give_up) failed = nobody_there(now);
      }
    });
    if (failed) return *failed;
    return until;
  }

  [[nodiscard]] bool busy(std::size_t piece) const {
    return std::any_of(requests_.begin(), requests_.end(), [piece](const auto& one) { return one.second.piece == piece; });
  }

  /// Whom to ask for what; none where nobody can be asked now. With the lock held.
  std::optional<under_way> choose(pass& p, std::size_t piece, block_passage::question& q) {
    block_passage& one = p.pieces[piece];
    under_way u{piece, 0, 0, request_of(p, piece), fabric_->now()};
    stage::span_chain chain;
    if (one.unrouted().size() > 0) {
      directory_.expire(u.since);
      const std::int64_t tuned = u.what.tuning().rows(model_.width, model_.maps);
      chain = directory_.route(one.unrouted(), {u.what.rows(), tuned}, u.since);
      if (chain.empty()) return std::nullopt;
    }
    q = one.next(chain);
    u.server = q.hop.server;
    const auto link = link_to(u.server);
    if (!link) {  // it went between its forward and its backward
      if (q.backward) one.lost_gradient();
      directory_.gone(u.server);
      news_ = true;
      return std::nullopt;
    }
    if (q.backward && directory_.full(u.server)) return std::nullopt;
    u.link = *link;
    u.what.number = ++last_;
    u.what.backward = q.backward ? 1 : 0;
    u.what.blocks = q.hop.blocks;
    u.what.x_bytes = static_cast<std::uint32_t>(q.x->size());
    directory_.asked(u.server, u.what.work());
    requests_[u.what.number] = u;
    fabric_->post(u.link, block_wire::encode(run_, u.what));
    return u;
  }

  void send(const pass& p, const under_way& u, const block_passage::question& q) {
    const std::size_t each = p.batch.tuned.size() / static_cast<std::size_t>(directory_.layers());
    const auto tuned = p.batch.tuned.subspan(static_cast<std::size_t>(u.what.blocks.first) * each,
                                             static_cast<std::size_t>(u.what.blocks.size()) * each);
    const std::span<const std::byte> dy = q.dy ? std::span<const std::byte>{*q.dy} : std::span<const std::byte>{};
    auto data = codec_.request_data(*q.x, dy, tuned);
    mailbox_.expect(u.link, block_wire::answer_id(u.what.number), u.what.number, codec_.answer_bytes(u.what));
    mailbox_.send(u.link, block_wire::request_id(u.what.number),
                  std::make_shared<const std::vector<std::byte>>(std::move(data)));
  }

  void take(thread_pool& pool, pass& p, std::span<std::vector<float>> d_tuned,
            typename tensor_mailbox<std::uint64_t>::arrival& a) {
    const auto found = requests_.find(a.what);
    if (found == requests_.end() || found->second.link != a.from) return;
    const under_way u = found->second;
    if (a.bytes->size() == 1) {
      not_finite_ += (*a.bytes)[0] == block_wire::not_finite ? 1 : 0;
      return lose(p, u, "it refuses");
    }
    auto answer = codec_.read_answer(pool, u.what, a.bytes);
    if (!answer) {
      fabric_->locked([&] { fabric_->close(u.link, answer.error().message); });
      return lose(p, u, answer.error().message);
    }
    fabric_->locked([&] {
      requests_.erase(u.what.number);
      const double took = seconds(fabric_->now() - u.since);
      directory_.answered(u.server, u.what.work(), static_cast<double>(u.what.rows()), took);
    });
    block_passage& piece = p.pieces[u.piece];
    if (u.what.backward == 0) return piece.took_output(stage::span_hop{u.server, u.what.blocks}, std::move(answer->rows));
    piece.took_gradient(std::move(answer->rows));
    const std::int64_t each = u.what.tuning().values(model_.width, model_.maps);
    std::copy(answer->d_tuned.begin(), answer->d_tuned.end(), d_tuned[u.piece].begin() + u.what.blocks.first * each);
  }

  /// Requests to whom is down, or took too long.
  void forget_lost(pass& p) {
    std::vector<under_way> lost;
    fabric_->locked([&] {
      const time_point now = fabric_->now();
      for (const auto& [number, u] : requests_) {
        const bool late = now >= u.since + options_.patience;
        if (late) fabric_->close(u.link, "it did not answer in time");
        if (late || down_.contains(u.link)) lost.push_back(u);
      }
      down_.clear();
    });
    for (const under_way& u : lost) lose(p, u, "its connection is lost, or it was too slow");
  }

  void lose(pass& p, const under_way& u, const std::string& why) {
    log_(severity::warning, "server " + std::to_string(u.server) + " is left for a while: " + why);
    fabric_->locked([&] {
      requests_.erase(u.what.number);
      directory_.failed(u.server, u.what.work(), fabric_->now());
    });
    ++lost_;
    if (u.what.backward != 0) p.pieces[u.piece].lost_gradient();
  }

  span_model model_;
  block_rpc_codec<Codec> codec_;
  tensor_mailbox<std::uint64_t> mailbox_;
  std::map<std::uint64_t, under_way> requests_;  // by number
  std::optional<time_point> waits_since_;        // nobody can be asked
  std::uint64_t last_ = 0, lost_ = 0;
  int not_finite_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_CLIENT_HPP
