# Everything goes through the program's command and the JSON it prints: no number is computed here.

#' The program: getOption("fedci.command"), the environment's FEDCI, or `fedci` on the path.
.command <- function() {
  named <- getOption("fedci.command", Sys.getenv("FEDCI", "fedci"))
  found <- Sys.which(named[1])
  if (!nzchar(found)) {
    stop("the program '", named[1], "' is not found: install it with `pip install fedci`, or say where it is with ",
         "options(fedci.command = \"/path/to/fedci\")", call. = FALSE)
  }
  c(unname(found), named[-1])
}

#' Call a command of the program; its JSON as lists and data frames. What it says of an error is the error.
fedci <- function(...) {
  words <- unlist(list(...))
  program <- .command()
  said <- tempfile()
  on.exit(unlink(said))
  out <- suppressWarnings(system2(program[1], shQuote(c(program[-1], words, "--json")), stdout = TRUE, stderr = said))
  code <- attr(out, "status")
  if (!is.null(code) && code != 0) {
    told <- readLines(said, warn = FALSE)
    why <- grep("^error:", told, value = TRUE)
    stop(sub("^error: *", "", if (length(why)) why[length(why)] else paste(told, collapse = "\n")), call. = FALSE)
  }
  jsonlite::fromJSON(paste(out, collapse = "\n"), simplifyVector = TRUE)
}

#' Does a site's table fit the study, and what would leave? Nothing leaves.
check_study <- function(study, data, site = NULL, sites = NULL) {
  fedci("check", study, data, if (!is.null(site)) c("--site", site), if (!is.null(sites)) c("--sites", sites))
}

#' Fit a study over several sites on this machine. `sites`: a named vector, site -> file.
run_study <- function(study, sites, out = "result", seed = NULL, force = FALSE) {
  if (is.null(names(sites)) || any(!nzchar(names(sites)))) {
    stop("sites needs names: c(lyon = \"lyon.csv\", oslo = \"oslo.csv\")", call. = FALSE)
  }
  pairs <- unlist(lapply(names(sites), function(name) c("--site", paste0(name, "=", sites[[name]]))))
  fedci("run", study, pairs, "--out", out, "--quiet", if (!is.null(seed)) c("--seed", format(seed, scientific = FALSE)),
        if (force) "--force")
  read_result(out)
}

#' A result's folder, of whatever party or way.
read_result <- function(folder, alpha = 0.05) {
  structure(c(fedci("show", folder, "--alpha", .number(alpha)), list(folder = normalizePath(folder))),
            class = "fedci_result")
}

#' All digits: the program reads the same double again.
.number <- function(value) format(value, digits = 17, scientific = FALSE, trim = TRUE)

#' What the diagnostics say: a row for each verdict.
read_diagnostics <- function(result) {
  found <- fedci("diagnostics", .folder(result))
  parts <- lapply(found, function(part) {
    verdicts <- if (is.list(part) && !is.null(part$verdicts)) part$verdicts else if (is.list(part)) part$verdict
    if (is.data.frame(verdicts) && nrow(verdicts)) verdicts[c("name", "verdict", "value", "words")]
  })
  rows <- do.call(rbind, parts)
  rownames(rows) <- NULL
  rows
}

.folder <- function(result) if (inherits(result, "fedci_result")) result$folder else result

.open <- function(result) {
  if (is.null(result$effects)) {
    stop("the study is blinded: read the diagnostics, then `fedci unblind`", call. = FALSE)
  }
  result$effects
}

#' Of a study of more than two arms the rows of one contrast: the one asked for, or the first against the reference.
.contrast <- function(rows, arm = NULL, against = NULL) {
  if (is.null(rows$arm)) {
    if (!is.null(arm) || !is.null(against)) stop("the study has two arms: leave arm and against out", call. = FALSE)
    return(rows)
  }
  wanted <- c(if (is.null(arm)) rows$arm[1] else arm, if (is.null(against)) rows$against[1] else against)
  found <- rows[rows$arm == wanted[1] & rows$against == wanted[2], ]
  if (!nrow(found)) {
    known <- unique(paste0("'", rows$arm, "' against '", rows$against, "'"))
    stop("there is no contrast of '", wanted[1], "' against '", wanted[2], "'; there are ", paste(known, collapse = ", "),
         call. = FALSE)
  }
  found
}

#' The average effect over all people, or of one site: mean, sd, low, high; of several arms that of a contrast.
ate <- function(result, site = "all", over = "ATE", arm = NULL, against = NULL) {
  rows <- .contrast(.open(result), arm, against)
  found <- rows[rows$site == site & rows$estimand == over, ]
  if (!nrow(found)) stop("there is no '", over, "' of site '", site, "' in this result", call. = FALSE)
  unlist(found[c("mean", "sd", "low", "high")])
}

print.fedci_result <- function(x, ...) {
  cat("Study '", x$study, "': effect of '", x$treatment, "' on '", x$outcome, "'\n", sep = "")
  if (is.null(x$effects)) {
    cat("  blinded: its effects are sealed\n")
  } else {
    rows <- x$effects[x$effects$estimand == "ATE" & x$effects$site == "all", ]
    named <- if (is.null(rows$arm)) "" else paste0(rows$arm, " against ", rows$against, ": ")
    cat(sprintf("  %saverage effect %.4g, %g%% interval %.4g to %.4g\n", named, rows$mean, 100 * (1 - x$alpha), rows$low,
                rows$high), sep = "")
  }
  cat("  the fit ", x$verdict, "\n", sep = "")
  for (text in x$warnings) cat("  warning: ", text, "\n", sep = "")
  invisible(x)
}

summary.fedci_result <- function(object, ...) .open(object)

as.data.frame.fedci_result <- function(x, row.names = NULL, optional = FALSE, ...) .open(x)

confint.fedci_result <- function(object, parm, level = 0.95, ...) {
  rows <- .open(read_result(object$folder, alpha = 1 - level))
  made <- as.matrix(rows[c("low", "high")])
  named <- if (is.null(rows$arm)) "" else paste0(", ", rows$arm, " against ", rows$against)
  dimnames(made) <- list(paste0(rows$estimand, " ", rows$site, named), paste0(format(100 * c((1 - level) / 2, (1 + level) / 2)), " %"))
  if (missing(parm)) made else made[parm, , drop = FALSE]
}

#' Effects with intervals for new people: a data frame, or a file of the program's kinds.
predict.fedci_result <- function(object, newdata, site = NULL, alpha = 0.05, keep = NULL, ...) {
  given <- newdata
  if (is.data.frame(newdata)) {
    given <- tempfile(fileext = ".csv")
    on.exit(unlink(given), add = TRUE)
    shown <- newdata
    for (name in names(shown)) if (is.double(shown[[name]])) shown[[name]] <- ifelse(is.na(shown[[name]]), NA,
                                                                                   sprintf("%.17g", shown[[name]]))
    write.csv(shown, given, row.names = FALSE, na = "", quote = TRUE)
  }
  out <- tempfile(fileext = ".csv")
  on.exit(unlink(out), add = TRUE)
  fedci("predict", object$folder, given, "--out", out, "--alpha", .number(alpha), "--quiet",
        if (!is.null(site)) c("--site", site), unlist(lapply(keep, function(name) c("--keep", name))))
  read.csv(out, check.names = FALSE)
}

#' A forest of the average effects: each site, and all together; of several arms those of a contrast.
plot.fedci_result <- function(x, over = "ATE", xlab = NULL, arm = NULL, against = NULL, ...) {
  rows <- .contrast(.open(x), arm, against)
  rows <- rows[rows$estimand == over, ]
  rows <- rows[c(which(rows$site != "all"), which(rows$site == "all")), ]
  at <- rev(seq_len(nrow(rows)))
  whole <- rows$site == "all"
  before <- par(mar = c(4.5, 2 + 0.55 * max(nchar(rows$site)), 1.5, 1))
  on.exit(par(before))
  plot.default(rows$mean, at, xlim = range(rows$low, rows$high, 0), ylim = c(0.5, nrow(rows) + 0.5), yaxt = "n", ylab = "",
               xlab = if (is.null(xlab)) paste("Effect on", x$outcome) else xlab, pch = ifelse(whole, 18, 15),
               cex = ifelse(whole, 1.6, 1), ...)
  abline(v = 0, lty = 2)
  segments(rows$low, at, rows$high, at, lwd = ifelse(whole, 2.5, 1.5))
  axis(2, at = at, labels = rows$site, las = 1, tick = FALSE)
  invisible(rows)
}

#' The report, as HTML or Word.
write_report <- function(result, out, format = NULL) {
  fedci("report", .folder(result), "--out", out, if (!is.null(format)) c("--format", format))$report
}
