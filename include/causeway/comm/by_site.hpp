// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_BY_SITE_HPP
#define CAUSEWAY_COMM_BY_SITE_HPP

// Two tiers: the peers of a site, such as the GPUs of a machine, average gradients in every step and are one replica
// together; the sites exchange as another policy says, with DiLoCo for one. Slow lines carry what one replica sends,
// however many peers a site has.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/site.hpp>
#include <causeway/collective/transport_site.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

struct by_site_options {
  /// The peers of each site in the order of their ranks there, every peer once; equal on all peers. Empty: each peer is a
  /// site.
  std::vector<std::vector<net::peer_index>> sites;
};

namespace detail {

/// What the policy between sites sees: the run with each site as one participant.
template <class Context, class Owner>
class site_context {
 public:
  site_context(Context& all, Owner& owner) noexcept : all_{all}, owner_{owner} {}

  [[nodiscard]] std::uint64_t step() const { return all_.step(); }
  [[nodiscard]] std::uint64_t round() const { return all_.round(); }
  [[nodiscard]] bool keeps_inputs() const { return all_.keeps_inputs(); }
  [[nodiscard]] auto parameters() { return all_.parameters(); }
  [[nodiscard]] auto gradients() { return all_.gradients(); }
  [[nodiscard]] auto view() { return all_.view(); }
  [[nodiscard]] auto& pool() { return all_.pool(); }
  [[nodiscard]] auto& clock() { return all_.clock(); }
  [[nodiscard]] auto& shared_random() { return all_.shared_random(); }
  void parameters_changed() { all_.parameters_changed(); }
  result<void> track_updates(std::span<float> sum) { return all_.track_updates(sum); }
  [[nodiscard]] auto rows() { return all_.rows(); }
  void commit_round() { all_.commit_round(); }
  void commit_round(std::span<const float> shared) { all_.commit_round(shared); }

  result<void> mean(const auto& codec, std::span<float> data) { return owner_.mean_of_sites(all_, codec, data); }

 private:
  Context& all_;
  Owner& owner_;
};

}  // namespace detail

/// g ← the mean of g over this peer's site, before each inner step; then `Across`, whose means are over the sites:
/// Σ n_s·x_s / Σ n_s, where n_s is the number of peers of site s. `Across` may be any policy that exchanges through
/// `ctx.mean` alone, such as periodic and every_step; the peers of a site run it on equal values and keep equal state.
///
/// A mean over sites is cut into as many pieces as the smallest site has peers: the peers of rank r average piece r
/// among themselves, through the codec of `Across`, and give it to their sites. So a site sends and receives what one
/// replica would, over all its lines at once, and every peer encodes only its piece. A peer whose exchange fails says so to
/// its site: all of it fail together.
///
/// `close` carries what goes on within the site (cuda::open_site); without it, the run's transport does.
template <class Across = periodic<>>
class by_site {
  static_assert(!Across::traits.looks_ahead,
                "a policy that looks ahead must be the trainer's own: nobody else asks it for gradients");

 public:
  static constexpr std::string_view name = "by_site";
  static constexpr comm_traits traits{.tolerates = peers::fixed,
                                      .exchanges_gradients = true,
                                      .identical_replicas = Across::traits.identical_replicas,
                                      .rounds_by_steps = Across::traits.rounds_by_steps};
  static constexpr std::uint32_t state_version = 1;

  explicit by_site(by_site_options options = {}, Across across = Across{}, std::shared_ptr<collective::site> close = {})
      : options_{std::move(options)}, across_{std::move(across)}, close_{std::move(close)} {}

  /// The peers of this site, after `start`.
  [[nodiscard]] const std::vector<net::peer_index>& members() const noexcept { return options_.sites[site_]; }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(find_place(ctx.self(), ctx.peers()));
    CAUSEWAY_TRY(agree_on_sites(ctx));
    detail::site_context tier{ctx, *this};
    return across_.start(tier);
  }

  result<void> before_inner_step(auto& ctx) {
    if (!averaged_) CAUSEWAY_TRY(mean_of_members(ctx, ctx.gradients()));
    averaged_ = true;
    detail::site_context tier{ctx, *this};
    CAUSEWAY_TRY(across_.before_inner_step(tier));
    averaged_ = false;
    return {};
  }
  result<void> after_inner_step(auto& ctx) {
    detail::site_context tier{ctx, *this};
    return across_.after_inner_step(tier);
  }
  result<void> finish(auto& ctx) {
    detail::site_context tier{ctx, *this};
    return across_.finish(tier);
  }

  void serialize(auto& ar) { ar(across_); }

  /// data ← the mean over the sites, where the members of a site hold the same values. Equal bits on all peers. After an
  /// error the data is garbage unless ctx.keeps_inputs().
  result<void> mean_of_sites(auto& ctx, const auto& codec, std::span<float> data) {
    if (options_.sites.size() == 1) return {};
    return keeping(ctx, data, [&]() -> result<void> {
      const pieces cut{data, static_cast<std::int64_t>(codec.block()), pieces_};
      const auto mine = exchange_piece(ctx, codec, cut);
      if (members().size() == 1) return mine;
      return in_site(ctx, [&](collective::site& s) { return share_pieces(s, mine, cut); });
    });
  }

 private:
  /// Values cut at whole blocks of a codec.
  struct pieces {
    std::span<float> data;
    std::int64_t block;
    std::uint32_t count;

    [[nodiscard]] std::span<float> operator[](std::uint32_t rank) const {
      const index_range part = share_of(static_cast<std::int64_t>(data.size()), rank, count, block);
      return data.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size()));
    }
  };

  result<void> find_place(net::peer_index self, std::uint32_t peers) {
    if (options_.sites.empty()) {
      for (net::peer_index p = 0; p < peers; ++p) options_.sites.push_back({p});
    }
    pieces_ = peers;
    for (std::size_t s = 0; s < options_.sites.size(); ++s) {
      const auto& of_site = options_.sites[s];
      pieces_ = std::min(pieces_, static_cast<std::uint32_t>(of_site.size()));
      const auto found = std::find(of_site.begin(), of_site.end(), self);
      if (found != of_site.end()) site_ = s, rank_ = static_cast<std::uint32_t>(found - of_site.begin());
    }
    if (!collective::has_each_once(options_.sites, peers))
      return fail(errc::invalid_argument, "by_site", "sites must name every peer of the run once, and none be empty");
    if (close_ && (close_->size() != members().size() || close_->rank() != rank_)) {
      return fail(errc::invalid_argument, "by_site",
                  "the site was opened for other peers; open it with the list that stands in `sites`, in its order");
    }
    return {};
  }

  /// Peers with different lists would wait for each other or mix their pieces.
  result<void> agree_on_sites(auto& ctx) {
    hasher h;
    for (const auto& of_site : options_.sites) {
      h.add_value(std::uint64_t{of_site.size()});
      for (const net::peer_index p : of_site) h.add_value(std::uint64_t{p});
    }
    const std::uint64_t mine = h.finish();
    std::vector<std::uint64_t> all(ctx.peers());
    CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::site),
                                        std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}),
                                        ctx.exchange_options()));
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (all[p] == mine) continue;
      return fail(errc::invalid_argument, collective::peer_name(static_cast<net::peer_index>(p)),
                  "it has other sites; all peers need the same list");
    }
    return {};
  }

  result<void> mean_of_members(auto& ctx, std::span<float> data) {
    if (members().size() == 1) return {};
    return keeping(ctx, data, [&] { return in_site(ctx, [&](collective::site& s) { return s.mean(data); }); });
  }

  /// f() on `data`, which comes back where f fails and the fault policy may ask for it again.
  result<void> keeping(auto& ctx, std::span<float> data, auto&& f) {
    if (!ctx.keeps_inputs()) return f();
    const std::vector<float> kept{data.begin(), data.end()};
    auto outcome = f();
    if (!outcome) std::copy(kept.begin(), kept.end(), data.begin());
    return outcome;
  }

  result<void> in_site(auto& ctx, auto&& f) {
    if (close_) return f(*close_);
    collective::transport_site here{ctx.transport(), members(), ctx.exchange_id(collective::channels::site),
                                    options_of(ctx)};
    return f(here);
  }

  /// Averages this member's piece with those of its rank at the other sites; nothing where it has none.
  result<void> exchange_piece(auto& ctx, const auto& codec, const pieces& cut) {
    if (rank_ >= pieces_) return {};
    const std::span<float> mine = cut[rank_];
    const auto weight = static_cast<float>(members().size() * options_.sites.size()) / static_cast<float>(ctx.peers());
    if (weight != 1.0F) kernels::scale(ctx.pool(), mine.data(), weight, static_cast<std::int64_t>(mine.size()));
    std::vector<net::peer_index> same_rank;
    for (const auto& of_site : options_.sites) same_rank.push_back(of_site[rank_]);
    collective::group_view column{ctx.transport(), std::move(same_rank)};
    auto outcome =
        collective::exchange_mean(column, ctx.exchange_id(collective::channels::updates), codec, mine, options_of(ctx));
    if constexpr (requires { ctx.model().backend().finish(); }) {  // a codec of a device that failed
      if (auto device = ctx.model().backend().finish(); !device) return device;
    }
    return outcome;
  }

  /// Everybody's piece to everybody, if all have theirs.
  result<void> share_pieces(collective::site& s, const result<void>& mine, const pieces& cut) {
    const auto all = s.all_of(mine.has_value());
    if (!mine) return mine;
    if (!all) return all.error();
    if (!*all) {
      return fail(errc::peer_lost, "by_site",
                  "another peer of this site could not exchange with the other sites; its own error says why");
    }
    for (std::uint32_t r = 0; r < pieces_; ++r) CAUSEWAY_TRY(s.broadcast(r, cut[r]));
    return {};
  }

  [[nodiscard]] collective::collective_options options_of(auto& ctx) {
    auto options = ctx.exchange_options();
    options.workspace = memory_.get();
    return options;
  }

  by_site_options options_;
  Across across_;
  std::shared_ptr<collective::site> close_;
  std::unique_ptr<collective::collective_workspace> memory_ = std::make_unique<collective::collective_workspace>();
  std::size_t site_ = 0;
  std::uint32_t rank_ = 0;
  std::uint32_t pieces_ = 1;  ///< peers of the smallest site
  bool averaged_ = false;     ///< the gradients of a step whose exchange between sites failed
};
static_assert(CommunicationPolicy<by_site<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_BY_SITE_HPP
