// Package browser has the tests of the dashboard in a real browser, headless
// Chromium, against a real daemon. tools/browser.sh runs them.
package browser
