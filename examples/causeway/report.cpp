// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text_file.hpp"

namespace app {
namespace {

template <class... Ts>
std::string format(const char* pattern, Ts... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

struct axis {
  double low, high, from, to;
  double operator()(double v) const { return from + (v - low) / (high - low) * (to - from); }
};

// A round number near span / count: 1, 2 or 5 times a power of ten.
double tick_step(double span, int count) {
  const double rough = span / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  return (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power;
}

// Text between tags. What no XML may hold is left out.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) safe += c;
    }
  }
  return safe;
}

std::string polyline(const std::vector<loss_point>& points, const axis& x, const axis& y, const char* style) {
  std::string text = "<polyline fill=\"none\" ";
  text += style;
  text += " points=\"";
  for (const auto& p : points) text += format("%.1f,%.1f ", x(static_cast<double>(p.step)), y(p.value));
  return text + "\"/>\n";
}

}  // namespace

std::string human_bytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string human_seconds(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  if (s < 60) return format("%llds", s);
  if (s < 3600) return format("%lldm%02llds", s / 60, s % 60);
  return format("%lldh%02lldm", s / 3600, s % 3600 / 60);
}

std::string waiting_text(double blocked_seconds, double wall_seconds) {
  const double part = 100 * blocked_seconds / std::max(1e-9, wall_seconds);
  return format("waited %.1f %% of the time for other peers and for what they sent", part);
}

progress_line::progress_line(bool quiet) : quiet_{quiet}, terminal_{isatty(STDOUT_FILENO) != 0} {}

void progress_line::show(const progress& p, bool milestone) {
  if (quiet_ || (!terminal_ && !milestone)) return;
  std::string line = format("step %llu", static_cast<unsigned long long>(p.step));
  if (p.steps > 0) line += format("/%llu", static_cast<unsigned long long>(p.steps));
  line += format("  round %llu", static_cast<unsigned long long>(p.round));
  if (p.loss > 0) line += format("  loss %.3f", p.loss);  // none where a round came without training
  if (p.validation > 0) line += format("  validation %.3f", p.validation);
  line += format("  %.0f tok/s  sent %s", p.tokens_per_second, human_bytes(static_cast<double>(p.bytes_sent)).c_str());
  if (p.bytes_saved_factor > 1.05) line += format(" (%.0fx less)", p.bytes_saved_factor);
  if (p.peers > 0) line += "  " + counted(p.peers, "peer");
  if (p.seconds_left > 0) line += "  " + human_seconds(p.seconds_left) + " left";
  if (terminal_) {
    std::printf("\r\033[K%s%s", line.c_str(), milestone ? "\n" : "");
    open_ = !milestone;
  } else {
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

void progress_line::finish() {
  if (open_) std::printf("\n");
  open_ = false;
}

namespace {

std::string loss_plot(const run_losses& losses, const std::string& title) {
  const auto& [training, validation] = losses;
  double low = 1e30;
  double high = -1e30;
  double last = 1;
  for (const auto* series : {&training, &validation}) {
    for (const auto& p : *series) {
      low = std::min(low, p.value);
      high = std::max(high, p.value);
      last = std::max(last, static_cast<double>(p.step));
    }
  }
  if (low > high) low = 0, high = 1;
  const double margin = std::max(0.05 * (high - low), 0.01);
  const axis x{0, last, 60, 770};
  const axis y{low - margin, high + margin, 430, 50};

  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"480\" viewBox=\"0 0 800 480\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"800\" height=\"480\" fill=\"white\"/>\n"
      "<text x=\"60\" y=\"28\" font-size=\"16\">" +
      escaped(title) + "</text>\n";
  const double dy = tick_step(y.high - y.low, 6);
  for (double v = std::ceil(y.low / dy) * dy; v <= y.high; v += dy) {
    svg += format(
        "<line x1=\"60\" x2=\"770\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"52\" y=\"%.1f\" "
        "text-anchor=\"end\">%.4g</text>\n",
        y(v), y(v), y(v) + 4, v);
  }
  const double dx = tick_step(last, 8);
  for (double v = 0; v <= last; v += dx) {
    svg += format("<text x=\"%.1f\" y=\"450\" text-anchor=\"middle\">%.6g</text>\n", x(v), v);
  }
  svg +=
      "<text x=\"415\" y=\"472\" text-anchor=\"middle\">inner steps of each peer</text>\n"
      "<text x=\"16\" y=\"240\" transform=\"rotate(-90 16 240)\" text-anchor=\"middle\">loss, nats per token</text>\n";
  svg += polyline(training, x, y, "stroke=\"#7aa6d8\" stroke-width=\"1.2\"");
  svg += polyline(validation, x, y, "stroke=\"#c0392b\" stroke-width=\"2\"");
  for (const auto& p : validation) {
    svg +=
        format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#c0392b\"/>\n", x(static_cast<double>(p.step)), y(p.value));
  }
  svg +=
      "<g><line x1=\"600\" x2=\"630\" y1=\"64\" y2=\"64\" stroke=\"#7aa6d8\" stroke-width=\"2\"/><text x=\"638\" "
      "y=\"68\">training</text><line x1=\"600\" x2=\"630\" y1=\"84\" y2=\"84\" stroke=\"#c0392b\" "
      "stroke-width=\"2\"/><text x=\"638\" y=\"88\">validation</text></g>\n</svg>\n";
  return svg;
}

}  // namespace

causeway::result<void> write_loss_plot(const std::string& path, const std::vector<std::string>& peer_folders,
                                       const std::string& title) {
  return write_text(path, loss_plot(read_losses(peer_folders), title));
}

}  // namespace app
